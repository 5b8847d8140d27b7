"""The encrypted database: the only room that imports the SQLCipher driver."""
