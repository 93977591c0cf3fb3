"""Sources of librdmacm.so.1, the connection manager's client library."""
