"""What default roles allow, asked of upstream's own API server once and of ours in every test run."""
