"""A project served to agents for as long as a process lives: what is kept between questions, and what runs beside."""
