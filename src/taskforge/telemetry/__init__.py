"""What a process tells about itself."""
