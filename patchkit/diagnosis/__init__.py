"""What went wrong, or will: log → root cause → known issue; model config and deployment → problems."""
