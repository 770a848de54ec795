//! Time per operation on a database of a million locks: `cargo bench --bench keyspace`. Not here:
//! memory and pauses (`growth`).

use criterion::{Criterion, criterion_group, criterion_main};
use keylatch::base::chance::Chance;
use keylatch::base::clock::UnixMs;
use keylatch::keyspace::access::Limits;
use keylatch::keyspace::{Access, Db, Effects, Encoding, Event, Keyspace, Ttl};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const TOKEN: &[u8; 36] = b"0c2f9a64-7d3b-4b8e-9f10-5a6e7c8d9b01";
const NOW: UnixMs = UnixMs(1_700_000_000_000);
const DUE: UnixMs = UnixMs(1_700_000_030_000);
const KEYS: u64 = 1_000_000;

fn key(n: u64) -> Vec<u8> {
    format!("lock:{n:015}").into_bytes()
}

fn filled() -> Keyspace {
    let mut keyspace = Keyspace::new(16, 7);
    let db = keyspace.db_mut(0);
    for n in 0..KEYS {
        let key = key(n);
        let slot = db.find(&key);
        db.put(slot, &key, TOKEN, Encoding::Auto, Some(DUE), NOW);
    }
    keyspace
}

fn operations(c: &mut Criterion) {
    let mut keyspace = filled();
    let (mut chance, mut effects) = (Chance::from_seed(1), Effects::default());
    let limits = Limits { max_bulk_len: 512 << 20, no_touch: false, ..Limits::NONE };
    let mut keys = Access::new(&mut keyspace, 0, NOW, &mut chance, &mut effects, limits);
    let names: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let absent: Vec<Vec<u8>> = (KEYS..2 * KEYS).map(key).collect();
    // Steps through all keys in an order that the cache does not foresee.
    let mut at = 0;
    let mut next = move || {
        at = (at + 611_953) % KEYS as usize;
        at
    };

    c.bench_function("look up a key that is there", |b| {
        b.iter(|| black_box(keys.look(&names[next()])));
    });
    c.bench_function("look up a key that is not", |b| b.iter(|| black_box(keys.find(&absent[next()]))));
    c.bench_function("acquire (SET NX PX) and release (GET, DEL)", |b| {
        b.iter(|| {
            let name = &absent[next()];
            let slot = keys.find(name);
            keys.put(slot, name, TOKEN, Encoding::Auto, Ttl::At(DUE), Event::SET);
            let slot = keys.look(name);
            assert!(keys.value(slot) == TOKEN);
            keys.remove(slot, name, Event::DEL);
        });
    });
    c.bench_function("acquire a lock that is held", |b| {
        b.iter(|| assert!(keys.find(&names[next()]).is_some()));
    });
    c.bench_function("renew (overwrite with the same length)", |b| {
        b.iter(|| {
            let name = &names[next()];
            let slot = keys.find(name);
            keys.put(slot, name, TOKEN, Encoding::Auto, Ttl::At(DUE), Event::SET);
        });
    });
    c.bench_function("SCAN, ten keys", |b| {
        let mut cursor = 0;
        b.iter(|| cursor = keys.scan(cursor, 10, |db: &Db, slot| _ = black_box(db.key(slot))));
    });
    c.bench_function("a random key with a deadline", |b| {
        let mut chance = Chance::from_seed(2);
        b.iter(|| black_box(keys.db().random_volatile(&mut chance)));
    });
}

criterion_group!(benches, operations);
criterion_main!(benches);
