"""What `ktx status` shows besides its checks; nothing is opened but files and the state database."""
