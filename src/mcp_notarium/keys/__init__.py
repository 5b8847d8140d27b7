"""Key material on disk, in the environment and in the OS keychain."""
