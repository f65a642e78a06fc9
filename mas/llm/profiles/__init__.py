"""Model profiles: the classes that the files of `conf/model/` name."""
