"""An embedded Simperium: a real HTTP server on loopback for the demo and the tests."""
