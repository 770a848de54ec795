//! Room `net`: sockets. Bytes in, bytes out, signals.
