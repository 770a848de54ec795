//! DEBUG DIGEST and DIGEST-VALUE: hashes of data, the same as Redis's for the same data. Not here:
//! the entry and the rest of DEBUG (`debug`).

use crate::base::error::CommandError;
use crate::engine::spec::{Context, Outcome};
use crate::resp::{Args, Reply};
use sha1::{Digest, Sha1};

type Answer = Result<Outcome, CommandError>;

/// Redis's digest of data: twenty bytes into which everything is mixed.
#[derive(Clone, Copy, Default)]
struct Mix([u8; 20]);

impl Mix {
    /// Mixed in so that the order does not matter.
    fn xor(&mut self, bytes: &[u8]) {
        for (own, other) in self.0.iter_mut().zip(Sha1::digest(bytes)) {
            *own ^= other;
        }
    }
    /// Mixed in so that the order matters.
    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        let hash = Sha1::digest(self.0);
        self.0.copy_from_slice(&hash);
    }
    /// The value of a string, with whether it carries a deadline.
    fn mix_value(&mut self, value: &[u8], volatile: bool) {
        self.mix(&0_u32.to_be_bytes()); // the type: string
        self.mix(value);
        if volatile {
            self.xor(b"!!expire!!");
        }
    }
    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

pub(super) fn digest(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut all = Mix::default();
    let keyspace = &ctx.core.keyspace;
    for (index, number) in (0..keyspace.count()).zip(0_u32..) {
        let db = keyspace.db(index);
        if db.is_empty() {
            continue;
        }
        all.mix(&number.to_be_bytes());
        let mut cursor = 0;
        loop {
            cursor = db.scan(cursor, 1000, |slot| {
                let mut one = Mix::default();
                one.mix(db.key(slot));
                one.mix_value(db.value(slot), db.deadline(slot).is_some());
                all.xor(&one.0);
            });
            if cursor == 0 {
                break;
            }
        }
    }
    reply.simple(all.hex().as_bytes());
    Ok(Outcome::Done)
}

pub(super) fn digest_value(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut keys = ctx.core.access(ctx.client);
    reply.array(args.len() - 2);
    for key in args.rest(2) {
        let mut one = Mix::default();
        let slot = keys.find(key);
        if slot.is_some() {
            one.mix_value(keys.value(slot), keys.deadline(slot).is_some());
        }
        reply.simple(one.hex().as_bytes());
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes that redis-server 7.0.15 answered for these values.
    #[test]
    fn values_have_redis_s_digests() {
        for (value, hex) in [
            ("12345", "e1cf90774e995ae03de66e8109dc5cb9d9c2dc83"),
            ("hellox", "a8a9be575fe6a53e7eb0578fa06387d243cb063d"),
        ] {
            let mut one = Mix::default();
            one.mix_value(value.as_bytes(), false);
            assert_eq!(one.hex(), hex);
        }
        let mut all = Mix::default();
        all.mix(&0_u32.to_be_bytes());
        for (key, value) in [("a", "12345"), ("b", "hellox")] {
            let mut one = Mix::default();
            one.mix(key.as_bytes());
            one.mix_value(value.as_bytes(), false);
            all.xor(&one.0);
        }
        assert_eq!(all.hex(), "29c10ba2b6c104579deba8916727fedc9426ed7e");
    }
}
