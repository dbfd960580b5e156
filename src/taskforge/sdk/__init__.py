"""What applications import: the app object, the job decorator and class, handles."""
