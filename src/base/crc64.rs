//! The CRC that ends a DUMP payload: 64 bits, Jones's polynomial, reflected, no final inversion.
//! Not here: what is summed (`command::dump`).

/// Jones's polynomial, bits reversed.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The checksum of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[((crc ^ u64::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_check_value() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(super::crc64(b""), 0);
    }
}
