"""Labels of people on questions and answers; its module is loaded where they are read."""
