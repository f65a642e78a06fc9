"""What gives the benchmark away: how texts are searched for questions and gold answers, and what the web showed."""
