"""What `ktx lint` finds in the files of a project: coverage, the wiki, the semantic layer; see `lint_project`."""
