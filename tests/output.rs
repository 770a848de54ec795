//! What a client leaves unread: that it comes whole and in order however slowly it is read, that it
//! is counted where Redis counts it, and that its memory comes back. Not here: who is cut off for it
//! (`watching`, `protocol`).

mod common;

use std::io::Read;

use common::{Client, Server, is_keylatch, until};

/// A number in `client`'s line of CLIENT LIST.
fn listed(admin: &mut Client, id: i64, field: &str) -> usize {
    let line = admin.value(&["CLIENT", "LIST", "ID", &id.to_string()]).text();
    let word = line.split_whitespace().find_map(|word| word.strip_prefix(&format!("{field}=")));
    word.and_then(|n| n.parse().ok()).expect("a number")
}

/// A line of INFO.
fn figure(client: &mut Client, name: &str) -> usize {
    let text = client.value(&["INFO", "everything"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.and_then(|value| value.trim().parse().ok()).expect("a figure")
}

fn id(client: &mut Client) -> i64 {
    client.say("CLIENT ID").trim_start_matches(':').parse().expect("an id")
}

/// Bytes that are in no other place the same.
fn value(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i % 241 + i / 241 % 7) as u8).collect()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Reads what `expected` is as long as, by `step` bytes, and says whether it is that.
fn reads(client: &mut Client, expected: &[u8], step: usize) -> bool {
    let mut chunk = vec![0; step];
    let mut at = 0;
    while at < expected.len() {
        let wanted = step.min(expected.len() - at);
        match client.stream.read(&mut chunk[..wanted]) {
            Ok(n) if n > 0 && chunk[..n] == expected[at..at + n] => at += n,
            _ => return false,
        }
    }
    true
}

#[test]
fn replies_of_all_sizes_come_whole_and_in_order_to_a_slow_reader() {
    let server = Server::start(&[]);
    let (mut admin, mut slow) = (server.client(), server.client());
    let slow_id = id(&mut slow);
    let sizes = [1_000_000, 3, 16_383, 16_384, 70_000, 0, 300_000, 9_000];
    let values: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &len)| value(i * 1000, len)).collect();
    for (i, value) in values.iter().enumerate() {
        assert_eq!(admin.call(&[b"SET", i.to_string().as_bytes(), value]), "+OK");
    }
    let before = figure(&mut admin, "used_memory");
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for round in 0..24 {
        for i in 0..sizes.len() {
            // Each round in another order.
            let i = (i * 3 + round) % sizes.len();
            requests.extend_from_slice(format!("GET {i}\r\nECHO {round}-{i}\r\n").as_bytes());
            expected.extend(bulk(&values[i]));
            expected.extend(bulk(format!("{round}-{i}").as_bytes()));
        }
    }
    requests.extend_from_slice(b"INCR done\r\n");
    expected.extend_from_slice(b":1\r\n");
    slow.raw(&requests);
    until("all to be run", || (admin.say("EXISTS done") == ":1").then_some(()));
    // More waits than the kernel takes, and it is in the list.
    let (pieces, memory) = (listed(&mut admin, slow_id, "oll"), listed(&mut admin, slow_id, "omem"));
    assert!(pieces > 10, "{pieces} pieces");
    assert!((10_000_000..60_000_000).contains(&memory), "{memory} bytes wait");
    assert!(listed(&mut admin, slow_id, "tot-mem") >= memory);
    assert!(figure(&mut admin, "client_recent_max_output_buffer") >= memory);
    assert!(figure(&mut admin, "mem_clients_normal") >= memory);
    assert!(figure(&mut admin, "used_memory") >= before + memory / 2);
    // What has been read is given back while the rest still waits.
    let (first, rest) = expected.split_at(expected.len() * 3 / 4);
    assert!(reads(&mut slow, first, 7_001));
    until("the list to shrink", || (listed(&mut admin, slow_id, "omem") < memory / 2).then_some(()));
    assert!(listed(&mut admin, slow_id, "oll") < pieces);
    assert!(reads(&mut slow, rest, 64 * 1024));
    assert_eq!(slow.say("PING"), "+PONG");
    for field in ["obl", "oll", "omem"] {
        assert_eq!(listed(&mut admin, slow_id, field), 0, "{field}");
    }
    if is_keylatch() {
        let after = figure(&mut admin, "used_memory");
        assert!(after < before + (1 << 20), "{before} before, {after} after");
    }
}

#[test]
fn what_all_subscribers_are_sent_is_kept_once_and_counted_for_each() {
    const READERS: usize = 8;
    const MESSAGES: usize = 16;
    let server = Server::start(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let mut admin = server.client();
    let mut readers: Vec<Client> = (0..READERS).map(|_| server.client()).collect();
    let ids: Vec<i64> = readers.iter_mut().map(id).collect();
    for (i, reader) in readers.iter_mut().enumerate() {
        if i % 2 == 1 {
            reader.send(&["HELLO", "3"]);
            reader.frame().expect("who we are");
        }
        reader.send(&["SUBSCRIBE", "news"]);
        reader.frame().expect("a confirmation");
    }
    let before = figure(&mut admin, "used_memory");
    let (mut two, mut three) = (Vec::new(), Vec::new());
    for i in 0..MESSAGES {
        for message in [value(i, 1_000_000), i.to_string().into_bytes()] {
            assert_eq!(admin.call(&[b"PUBLISH", &b"news"[..], &message]), format!(":{READERS}"));
            let rest = [&b"3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n"[..], &bulk(&message)].concat();
            two.extend([&b"*"[..], &rest].concat());
            three.extend([&b">"[..], &rest].concat());
        }
    }
    let omem: Vec<usize> = ids.iter().map(|&id| listed(&mut admin, id, "omem")).collect();
    assert!(omem.iter().all(|&omem| (4_000_000..17_000_000).contains(&omem)), "{omem:?}");
    if is_keylatch() {
        // Once in each protocol.
        let used = figure(&mut admin, "used_memory") - before;
        assert!(used < MESSAGES * 2_500_000, "{used} bytes for {READERS} readers");
    }
    for (i, reader) in readers.iter_mut().enumerate() {
        assert!(reads(reader, if i % 2 == 1 { &three } else { &two }, 50_000), "reader {i}");
    }
    assert!(ids.iter().all(|&id| listed(&mut admin, id, "omem") == 0));
    if is_keylatch() {
        let after = figure(&mut admin, "used_memory");
        assert!(after < before + (1 << 20), "{before} before, {after} after");
    }
}

/// As in Redis: the flat buffer of a client is not in the list, and no limit counts it.
#[test]
fn little_that_waits_is_in_no_list() {
    let server = Server::start(&["--client-output-buffer-limit", "pubsub 1 0 0"]);
    let (mut admin, mut reader) = (server.client(), server.client());
    assert!(reader.say("SUBSCRIBE news").starts_with('*'));
    for i in 0..100 {
        assert_eq!(admin.say(&format!("PUBLISH news {i}")), ":1");
    }
    for _ in 0..100 {
        assert!(reader.frame().is_some());
    }
    // One piece is more than this limit allows, read or not.
    assert_eq!(admin.call(&["PUBLISH", "news", &"x".repeat(100_000)]), ":1");
    reader.until_closed();
    assert_eq!(admin.say("PUBLISH news x"), ":0");
}
