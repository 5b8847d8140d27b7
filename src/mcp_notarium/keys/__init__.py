"""Find keys: settings, OS keychain, key file."""
