//! Numbers as people read them. Not here: numbers as the protocol has them (`number`).

/// Bytes as INFO's `_human` fields print them: `918.84K`.
pub fn human_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut size, mut units) = (bytes as f64, "KMGTPE".chars());
    let mut unit = 'B';
    while size >= 1024.0
        && let Some(next) = units.next()
    {
        size /= 1024.0;
        unit = next;
    }
    format!("{size:.2}{unit}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_printed_as_redis_prints_them() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (940_896, "918.84K"),
            (12_099_584, "11.54M"),
            (25_276_502_016, "23.54G"),
        ] {
            assert_eq!(super::human_bytes(bytes), text);
        }
    }
}
