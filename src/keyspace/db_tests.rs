//! Tests of `db`: a model beside it, SCAN's guarantee, sampling, memory that comes back.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

const NOW: UnixMs = UnixMs(1_700_000_000_000);

fn put(db: &mut Db, key: &[u8], value: &[u8], deadline: Option<UnixMs>) {
    let slot = db.find(key);
    db.put(slot, key, value, Encoding::Auto, deadline, NOW);
}

fn remove(db: &mut Db, key: &[u8]) -> bool {
    let slot = db.find(key);
    if slot.is_some() {
        db.remove(slot);
    }
    slot.is_some()
}

fn name(n: u64) -> Vec<u8> {
    match n % 50 {
        0 => format!("{}{n}", "long".repeat(40)).into_bytes(),
        1 => n.to_le_bytes().to_vec(),
        _ => format!("lock:{n}").into_bytes(),
    }
}

/// Random operations beside a map; the two must agree, and the structures among themselves.
fn model(seed: u64, keys: u64, steps: usize, check_every: usize) {
    let mut chance = Chance::from_seed(seed);
    let mut db = Db::new(seed);
    let mut map: BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)> = BTreeMap::new();
    let mut grows = 6;
    for step in 0..steps {
        if chance.below(steps as u64 / 8 + 1) == 0 {
            grows = [2, 6, 9][chance.below(3) as usize];
        }
        let key = name(chance.below(keys));
        let slot = db.find(&key);
        assert_eq!(slot.is_some(), map.contains_key(&key), "seed {seed}, step {step}");
        let deadline = (chance.below(2) == 0).then(|| chance.below(1000) as i64);
        if chance.below(10) < grows {
            let value = vec![chance.bits() as u8; [0, 1, 36, 36, 36, 900, 1100][chance.below(7) as usize]];
            let new = db.put(slot, &key, &value, Encoding::Auto, deadline.map(UnixMs), NOW);
            assert_eq!(db.key(new), &key[..]);
            map.insert(key, (value, deadline));
        } else if slot.is_some() {
            match chance.below(10) {
                0 | 1 => {
                    db.set_deadline(slot, deadline.map(UnixMs));
                    map.get_mut(&key).expect("looked up").1 = deadline;
                }
                2 => {
                    let more = chance.below(200) as usize;
                    db.modify(slot, Encoding::Raw, |value| value.resize(value.len() + more, 7));
                    let value = &mut map.get_mut(&key).expect("looked up").0;
                    value.resize(value.len() + more, 7);
                }
                _ => {
                    db.remove(slot);
                    map.remove(&key);
                }
            }
        }
        if chance.below(steps as u64) == 0 {
            db.clear();
            map.clear();
        }
        if step % check_every == 0 || step + 1 == steps {
            db.check().unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong}"));
            assert_eq!(db.len(), map.len(), "seed {seed}, step {step}");
            for (key, (value, deadline)) in &map {
                let slot = db.find(key);
                assert!(slot.is_some(), "seed {seed}, step {step}: lost {key:?}");
                assert_eq!(db.value(slot), &value[..], "seed {seed}, step {step}");
                assert_eq!(db.deadline(slot).map(|at| at.0), *deadline, "seed {seed}, step {step}");
            }
        }
    }
}

#[test]
fn agrees_with_a_map_step_by_step() {
    for seed in 0..40 {
        model(seed, 40, 600, 1);
    }
}

#[test]
fn agrees_with_a_map_at_size() {
    for seed in 100..104 {
        model(seed, 20_000, 60_000, 7_919);
    }
}

/// Whatever is there from the first call of SCAN to the last is returned, whatever else comes and
/// goes between the calls.
fn scan_guarantee(seed: u64) {
    let mut chance = Chance::from_seed(seed);
    let mut db = Db::new(seed);
    let mut there: BTreeSet<u64> = BTreeSet::new();
    for _ in 0..chance.below(3000) {
        let n = chance.below(4000);
        put(&mut db, &name(n), b"v", n.is_multiple_of(3).then_some(NOW));
        there.insert(n);
    }
    let mut stayed = there.clone();
    let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
    let (mut cursor, mut calls) = (0, 0);
    // How busy the time between two calls is, and whether it rather adds or removes.
    let (busy, adds) = (chance.below(40), chance.below(11));
    loop {
        let count = 1 + chance.below(20) as usize;
        let mut visited = 0;
        cursor = db.scan(cursor, count, |slot| {
            visited += 1;
            seen.insert(db.key(slot).to_vec());
        });
        assert!(visited <= count, "seed {seed}: COUNT bounds the work");
        calls += 1;
        assert!(calls <= 3001, "seed {seed}: the walk ends");
        if cursor == 0 {
            break;
        }
        for _ in 0..chance.below(busy + 1) {
            let n = chance.below(4000);
            if chance.below(10) < adds {
                put(&mut db, &name(n), b"w", None);
                there.insert(n);
            } else if remove(&mut db, &name(n)) {
                there.remove(&n);
                stayed.remove(&n);
            }
        }
    }
    for n in &stayed {
        assert!(seen.contains(&name(*n)), "seed {seed}: {n} stayed and was not returned");
    }
    db.check().unwrap();
}

#[test]
fn scan_returns_whatever_stays() {
    (0..300).for_each(scan_guarantee);
}

#[test]
fn scan_visits_each_key_once_where_nothing_changes() {
    let mut db = Db::new(1);
    (0..1000).for_each(|n| put(&mut db, &name(n), b"v", None));
    let (mut cursor, mut visits, mut calls) = (0, 0, 0);
    loop {
        cursor = db.scan(cursor, 10, |_| visits += 1);
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((visits, calls), (1000, 100));
}

#[test]
fn scan_takes_any_cursor() {
    let mut db = Db::new(1);
    assert_eq!(db.scan(0, 10, |_| unreachable!()), 0);
    assert_eq!(db.scan(u64::MAX, 10, |_| unreachable!()), 0);
    (0..30).for_each(|n| put(&mut db, &name(n), b"v", None));
    assert_eq!(db.scan(u64::MAX, 10, |_| ()), 20);
    assert_eq!(db.scan(31, 10, |_| ()), 20);
    assert_eq!(db.scan(5, usize::MAX, |_| ()), 0);
    assert_eq!(db.scan(5, 0, |_| ()), 4);
}

/// Each of `counts` lies within five standard deviations of the mean.
fn assert_uniform(counts: &BTreeMap<Vec<u8>, u32>, draws: f64) {
    let mean = draws / counts.len() as f64;
    for (key, &count) in counts {
        assert!((f64::from(count) - mean).abs() < 5.0 * mean.sqrt(), "{key:?}: {count} of {mean}");
    }
}

#[test]
fn sampling_is_fair_and_meets_the_right_keys() {
    let mut chance = Chance::from_seed(3);
    let mut db = Db::new(3);
    assert!(db.random(&mut chance).is_none() && db.random_volatile(&mut chance).is_none());
    (0..600).for_each(|n| put(&mut db, &name(n), b"v", (n % 5 == 0).then_some(NOW)));
    (0..300).for_each(|n| assert!(remove(&mut db, &name(n))));
    let (mut all, mut volatile) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..60_000 {
        let slot = db.random(&mut chance).expect("there are keys");
        *all.entry(db.key(slot).to_vec()).or_default() += 1;
        let slot = db.random_volatile(&mut chance).expect("some have a deadline");
        assert!(db.deadline(slot).is_some());
        *volatile.entry(db.key(slot).to_vec()).or_default() += 1;
    }
    assert_eq!((all.len(), volatile.len()), (300, 60));
    assert_uniform(&all, 60_000.0);
    assert_uniform(&volatile, 60_000.0);
}

#[test]
fn deadlines_come_and_go() {
    let mut db = Db::new(4);
    put(&mut db, b"k", b"v", None);
    for deadline in [Some(5), None, Some(i64::MAX), Some(7), Some(-3), None] {
        db.set_deadline(db.find(b"k"), deadline.map(UnixMs));
        assert_eq!(db.deadline(db.find(b"k")).map(|at| at.0), deadline);
        assert_eq!(db.volatile_len(), usize::from(deadline.is_some()));
        db.check().unwrap();
    }
    db.set_deadline(db.find(b"k"), Some(UnixMs(i64::MIN)));
    assert_eq!(db.deadline(db.find(b"k")), Some(UnixMs(i64::MIN + 1)));
}

#[test]
fn access_times_are_kept_to_the_second() {
    let mut db = Db::new(4);
    put(&mut db, b"k", b"v", None);
    let slot = db.find(b"k");
    let start = NOW.0 / 1000;
    let later = UnixMs(NOW.0 + 90 * 86_400_000);
    assert_eq!(i64::from(db.accessed(slot, later)), start);
    db.touch(slot, later);
    assert_eq!(i64::from(db.accessed(slot, later)), later.0 / 1000);
    // A clock that was moved back: no idle time, not 97 days of it.
    let back = UnixMs(later.0 - 60_000);
    assert_eq!(i64::from(db.accessed(slot, back)), back.0 / 1000);
}

#[test]
fn a_database_is_dropped_in_slices() {
    let mut db = Db::new(5);
    (0..50_000).for_each(|n| put(&mut db, &name(n), b"v", Some(NOW)));
    let mut slices = 1;
    while db.drop_some(1000) {
        slices += 1;
        assert!(slices < 100);
    }
    assert!(slices >= 50 && db.is_empty());
    assert!(!Db::new(6).drop_some(10));
}

#[test]
fn an_emptied_database_serves_again() {
    let mut db = Db::new(5);
    for _ in 0..3 {
        (0..5000).for_each(|n| put(&mut db, &name(n), b"v", Some(NOW)));
        (0..5000).for_each(|n| assert!(remove(&mut db, &name(n))));
        assert!(db.is_empty() && db.volatile_len() == 0);
        db.check().unwrap();
    }
}
