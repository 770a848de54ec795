//! The active expire cycle. (A stand-in until the real one lands.)
