//! Fernet tokens, litdata's encryption: AES-128 in CBC mode and an HMAC, keyed by a password and a stored salt.

use aes::Aes128;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, KeyIvInit};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// litdata's number of rounds.
const ROUNDS: u32 = 480_000;
/// Version byte, time, initialisation vector; then the ciphertext; then the HMAC.
const HEAD: usize = 1 + 8 + 16;
const MAC: usize = 32;

/// Decrypts tokens.
pub(super) struct Fernet {
    signing: [u8; 16],
    encryption: [u8; 16],
}

/// Never shows the key.
impl std::fmt::Debug for Fernet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fernet")
    }
}

#[derive(Deserialize)]
struct SaltFile {
    algorithm: String,
    salt: String,
}

/// The salt in a file that `FernetEncryption.save` wrote; `None` if it is another file.
pub(super) fn salt(file: &[u8]) -> Option<Vec<u8>> {
    let file: SaltFile = serde_json::from_slice(file).ok()?;
    if file.algorithm != "fernet" {
        return None;
    }
    URL_SAFE.decode(file.salt).ok()
}

impl Fernet {
    /// Uses the key that litdata derives from a password.
    pub(super) fn from_password(password: &str, salt: &[u8]) -> Self {
        let mut key = [0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, ROUNDS, &mut key);
        Fernet::from_bytes(&key)
    }

    /// Uses a key in Fernet's own form: 32 bytes in base64.
    pub(super) fn from_key(key: &str) -> Option<Self> {
        let bytes: [u8; 32] = URL_SAFE.decode(key).ok()?.try_into().ok()?;
        Some(Fernet::from_bytes(&bytes))
    }

    fn from_bytes(key: &[u8; 32]) -> Self {
        let (mut signing, mut encryption) = ([0; 16], [0; 16]);
        signing.copy_from_slice(&key[..16]);
        encryption.copy_from_slice(&key[16..]);
        Fernet { signing, encryption }
    }

    /// The content of a token. Checks the HMAC first: a wrong password never gives wrong bytes.
    pub(super) fn open(&self, token: &[u8]) -> Result<Vec<u8>, String> {
        let mut bytes = URL_SAFE.decode(token).map_err(|_| "not a Fernet token: it is not base64")?;
        if bytes.len() < HEAD + MAC || bytes[0] != 0x80 {
            return Err("not a Fernet token".to_owned());
        }
        let code = bytes.split_off(bytes.len() - MAC);
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.signing).expect("any length is a key");
        mac.update(&bytes);
        mac.verify_slice(&code)
            .map_err(|_| "the password is wrong or the data are damaged (HMAC mismatch)")?;
        let vector: [u8; 16] = bytes[9..HEAD].try_into().expect("16 bytes");
        let mut content = bytes.split_off(HEAD);
        let cipher = cbc::Decryptor::<Aes128>::new(&self.encryption.into(), &vector.into());
        let length =
            cipher.decrypt_padded::<Pkcs7>(&mut content).map_err(|_| "the padding is damaged")?.len();
        content.truncate(length);
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the Fernet specification.
    const KEY: &str = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";
    const TOKEN: &str = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";

    #[test]
    fn the_token_of_the_specification_is_decrypted() {
        let fernet = Fernet::from_key(KEY).unwrap();
        assert_eq!(fernet.open(TOKEN.as_bytes()).unwrap(), b"hello");
        for length in 0..TOKEN.len() {
            assert!(fernet.open(&TOKEN.as_bytes()[..length]).is_err());
        }
        let other = Fernet::from_password("x", b"salt");
        assert!(other.open(TOKEN.as_bytes()).unwrap_err().contains("password is wrong"));
        assert!(Fernet::from_key("short").is_none());
    }

    #[test]
    fn salts_are_read_from_litdatas_file_only() {
        assert_eq!(
            salt(br#"{"algorithm": "fernet", "level": "chunk", "salt": "AAEC"}"#),
            Some(vec![0, 1, 2])
        );
        assert_eq!(salt(br#"{"algorithm": "rsa", "salt": "AAEC"}"#), None);
        assert_eq!(salt(br#"{"chunks": []}"#), None);
    }
}
