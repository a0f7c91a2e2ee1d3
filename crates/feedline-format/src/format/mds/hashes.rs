//! The hashes that an index may contain, by their names in Python's `hashlib` and `xxhash`.

use std::io::{self, Read};

use blake2::{Blake2b512, Blake2s256};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use xxhash_rust::{xxh3::Xxh3, xxh32::Xxh32, xxh64::Xxh64};

/// A hash that is being computed.
pub(super) trait Hash {
    fn update(&mut self, bytes: &[u8]);
    /// Lower-case hex.
    fn finish(self: Box<Self>) -> String;
}

struct Cryptographic<D>(D);

impl<D: Digest> Hash for Cryptographic<D> {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> String {
        self.0.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }
}

struct Fast<H>(H, fn(&mut H, &[u8]), fn(&H) -> String);

impl<H> Hash for Fast<H> {
    fn update(&mut self, bytes: &[u8]) {
        self.1(&mut self.0, bytes);
    }

    fn finish(self: Box<Self>) -> String {
        self.2(&self.0)
    }
}

/// The named hash, if it is known.
pub(super) fn start(name: &str) -> Option<Box<dyn Hash>> {
    Some(match name {
        "md5" => Box::new(Cryptographic(Md5::new())),
        "sha1" => Box::new(Cryptographic(Sha1::new())),
        "sha224" => Box::new(Cryptographic(Sha224::new())),
        "sha256" => Box::new(Cryptographic(Sha256::new())),
        "sha384" => Box::new(Cryptographic(Sha384::new())),
        "sha512" => Box::new(Cryptographic(Sha512::new())),
        "sha512_224" => Box::new(Cryptographic(Sha512_224::new())),
        "sha512_256" => Box::new(Cryptographic(Sha512_256::new())),
        "sha3_224" => Box::new(Cryptographic(Sha3_224::new())),
        "sha3_256" => Box::new(Cryptographic(Sha3_256::new())),
        "sha3_384" => Box::new(Cryptographic(Sha3_384::new())),
        "sha3_512" => Box::new(Cryptographic(Sha3_512::new())),
        "blake2b" => Box::new(Cryptographic(Blake2b512::new())),
        "blake2s" => Box::new(Cryptographic(Blake2s256::new())),
        "xxh32" => Box::new(Fast(Xxh32::new(0), Xxh32::update, |h| format!("{:08x}", h.digest()))),
        "xxh64" => Box::new(Fast(Xxh64::new(0), Xxh64::update, |h| format!("{:016x}", h.digest()))),
        "xxh3_64" => Box::new(Fast(Xxh3::new(), Xxh3::update, |h| format!("{:016x}", h.digest()))),
        "xxh128" | "xxh3_128" => {
            Box::new(Fast(Xxh3::new(), Xxh3::update, |h| format!("{:032x}", h.digest128())))
        }
        _ => return None,
    })
}

/// Why a file differs from its index.
pub(super) enum Mismatch {
    Reading(io::Error),
    Different(String),
}

/// Compares the hashes of `bytes` with all of `expected`; the names must be known.
pub(super) fn compare(mut bytes: impl Read, expected: &[(String, String)]) -> Result<(), Mismatch> {
    let mut hashes: Vec<_> = expected.iter().filter_map(|(name, _)| start(name)).collect();
    let mut room = vec![0; 1 << 20];
    loop {
        match bytes.read(&mut room).map_err(Mismatch::Reading)? {
            0 => break,
            length => hashes.iter_mut().for_each(|hash| hash.update(&room[..length])),
        }
    }
    for ((name, expected), hash) in expected.iter().zip(hashes) {
        let found = hash.finish();
        if !found.eq_ignore_ascii_case(expected) {
            return Err(Mismatch::Different(format!("its {name} is {found}, the index says {expected}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes of `b"abc"` in Python 3.11 and xxhash 3.5.
    #[test]
    fn hashes_of_known_values() {
        for (name, hex) in [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
            ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "sha384",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                "sha512",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            ("sha3_224", "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
            ("sha3_256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
            (
                "sha3_384",
                "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
            ),
            (
                "sha3_512",
                "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
            ),
            (
                "blake2b",
                "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
            ),
            ("blake2s", "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"),
            ("sha512_224", "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
            ("sha512_256", "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
            ("xxh32", "32d153ff"),
            ("xxh64", "44bc2cf5ad770999"),
            ("xxh3_64", "78af5f94892f3950"),
            ("xxh128", "06b05ab6733a618578af5f94892f3950"),
            ("xxh3_128", "06b05ab6733a618578af5f94892f3950"),
        ] {
            let mut hash = start(name).unwrap();
            hash.update(b"a");
            hash.update(b"bc");
            assert_eq!(hash.finish(), hex, "{name}");
        }
        assert!(start("crc32").is_none());
    }
}
