"""Backend: schedules, memory plans and the `.om` file."""
