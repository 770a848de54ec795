//! Room `base`: what knows no Redis command (time, chance, numbers, globs, error texts).

pub mod chance;
pub mod clock;
pub mod crc16;
pub mod crc64;
pub mod error;
pub mod extended;
pub mod glob;
pub mod histogram;
pub mod hyperloglog;
pub mod lzf;
pub mod memory;
pub mod number;
pub mod number_text;
pub mod process;
pub mod words;
