//! What the newest client libraries send when they connect, word for word, and what is answered:
//! replies in order, the connection open, texts as a server of the reported version has them. The
//! same table is held against redis-server 7.0.15. Not here: the libraries themselves (`python`,
//! `clients`).
//!
//! redis-py, node-redis, ioredis, the redis and fred crates were recorded between the library and a
//! server; Jedis and Lettuce are put together from parts of their source, go-redis and StackExchange.Redis
//! from what is publicly told of their connections.

mod common;

use common::{Client, PATIENCE, Server, is_keylatch};

/// A request's words and its reply: frames joined by blanks, `~` for what is a server's own. In a
/// request `\x..` is a byte; a word in apostrophes is one word; `inline` sends the words as a line.
type Exchange = (&'static str, &'static str);

/// A library, how it connects, and what is sent together.
struct Handshake {
    name: &'static str,
    batches: &'static [&'static [Exchange]],
}

const HELLO: &str =
    "%7 $6 server $5 redis $7 version ~ $5 proto :3 $2 id :~ $4 mode ~ $4 role $6 master $7 modules *0";
const HELLO2: &str =
    "*14 $6 server $5 redis $7 version ~ $5 proto :2 $2 id :~ $4 mode ~ $4 role $6 master $7 modules *0";
const NO_MAINT: &str = "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.";
const NO_SENTINEL: &str = "-ERR unknown command 'SENTINEL', with args beginning with: ~";
const NO_CLUSTER: &str = "-ERR This instance has cluster support disabled";
const NO_SUCH_USER: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const ADDED_IN_7_2: &[&str] = &["SETINFO", "NO-TOUCH"];

/// Against a server as it starts.
const ALONE: &[Handshake] = &[
    Handshake {
        name: "redis-py 8.1.0, as it comes",
        batches: &[
            &[("HELLO 3", HELLO)],
            &[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-fqdn", NO_MAINT)],
            &[("CLIENT SETINFO LIB-NAME redis-py", "+OK")],
            &[("CLIENT SETINFO LIB-VER 8.1.0", "+OK")],
            &[("PING", "+PONG")],
        ],
    },
    Handshake {
        name: "redis-py 8.1.0 in RESP2, with a name and a database",
        batches: &[
            &[("CLIENT SETNAME me", "+OK")],
            &[("CLIENT SETINFO LIB-NAME redis-py", "+OK")],
            &[("CLIENT SETINFO LIB-VER 8.1.0", "+OK")],
            &[("SELECT 1", "+OK")],
        ],
    },
    Handshake {
        name: "redis-py 8.1.0, a user, a name, a database, its cache",
        batches: &[
            &[("HELLO 3 AUTH default secret", HELLO)],
            &[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-fqdn", NO_MAINT)],
            &[("CLIENT SETNAME me", "+OK")],
            &[("CLIENT SETINFO LIB-NAME redis-py", "+OK")],
            &[("CLIENT SETINFO LIB-VER 8.1.0", "+OK")],
            &[("SELECT 2", "+OK")],
            &[("CLIENT TRACKING ON", "+OK")],
        ],
    },
    Handshake {
        name: "redis-py 8.1.0, a password where none is asked for",
        batches: &[&[(
            "AUTH secret",
            "-ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        )]],
    },
    Handshake {
        name: "redis-py 8.1.0, looking for a sentinel",
        batches: &[
            &[("HELLO 3", HELLO)],
            &[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", NO_MAINT)],
            &[("CLIENT SETINFO LIB-NAME redis-py", "+OK")],
            &[("CLIENT SETINFO LIB-VER 8.1.0", "+OK")],
            &[("SENTINEL MASTERS", NO_SENTINEL)],
        ],
    },
    Handshake {
        name: "node-redis 6.3.1",
        batches: &[
            &[
                ("HELLO 3 SETNAME me", HELLO),
                ("SELECT 1", "+OK"),
                ("CLIENT SETINFO LIB-VER 6.3.1", "+OK"),
                ("CLIENT SETINFO LIB-NAME node-redis", "+OK"),
                ("CLIENT TRACKING ON", "+OK"),
            ],
            &[("PING", "+PONG")],
        ],
    },
    Handshake {
        name: "node-redis 6.3.1 with a user",
        batches: &[&[
            ("HELLO 3 AUTH default secret SETNAME me", HELLO),
            ("CLIENT SETINFO LIB-VER 6.3.1", "+OK"),
            ("CLIENT SETINFO LIB-NAME node-redis", "+OK"),
        ]],
    },
    Handshake {
        name: "node-redis 6.3.1 in RESP2 with a tag",
        batches: &[&[
            ("CLIENT SETNAME me", "+OK"),
            ("SELECT 1", "+OK"),
            ("CLIENT SETINFO LIB-VER 6.3.1", "+OK"),
            ("CLIENT SETINFO LIB-NAME node-redis(tag)", "+OK"),
        ]],
    },
    Handshake {
        name: "ioredis 6.0.0",
        batches: &[
            &[
                ("hello 3", HELLO),
                ("select 1", "+OK"),
                ("client setname me", "+OK"),
                ("client SETINFO LIB-VER 6.0.0", "+OK"),
                ("client SETINFO LIB-NAME ioredis", "+OK"),
            ],
            &[("info", "=~ txt:# Server redis_version:~# Keyspace~")],
            &[("subscribe a", ">3 $9 subscribe $1 a :1")],
            &[("ping", "+PONG")],
        ],
    },
    Handshake {
        name: "ioredis 6.0.0 with a user",
        batches: &[
            &[
                ("hello 3 AUTH default secret", HELLO),
                ("client SETINFO LIB-VER 6.0.0", "+OK"),
                ("client SETINFO LIB-NAME ioredis", "+OK"),
            ],
            &[("info", "=~ txt:# Server ~")],
        ],
    },
    Handshake {
        name: "redis 1.8.1 (Rust), its cache",
        batches: &[
            &[
                ("HELLO 3 AUTH default secret", HELLO),
                ("SELECT 2", "+OK"),
                ("CLIENT TRACKING ON", "+OK"),
                ("CLIENT SETINFO LIB-NAME redis-rs", "+OK"),
                ("CLIENT SETINFO LIB-VER 1.8.1", "+OK"),
            ],
            &[("PTTL k", ":-2"), ("GET k", "_")],
        ],
    },
    Handshake {
        name: "redis 1.8.1 (Rust) in RESP2",
        batches: &[&[
            ("AUTH default secret", "+OK"),
            ("SELECT 2", "+OK"),
            ("CLIENT SETINFO LIB-NAME redis-rs", "+OK"),
            ("CLIENT SETINFO LIB-VER 1.8.1", "+OK"),
        ]],
    },
    Handshake {
        name: "fred 10.1.0",
        batches: &[
            &[("PING", "+PONG")],
            &[("CLIENT ID", ":~")],
            &[("INFO server", "$~ # Server redis_version:~")],
            &[("QUIT", "+OK")],
        ],
    },
    Handshake {
        name: "fred 10.1.0 in RESP3, whose greeting is a line",
        batches: &[
            &[("inline HELLO 3 AUTH default secret", HELLO)],
            &[("SELECT 1", "+OK")],
            &[("CLIENT ID", ":~")],
            &[("INFO server", "=~ txt:# Server redis_version:~")],
            &[("CLUSTER INFO", NO_CLUSTER)],
        ],
    },
    Handshake {
        name: "Jedis 7",
        batches: &[
            &[("HELLO 3 AUTH default secret", HELLO)],
            &[
                ("CLIENT SETNAME me", "+OK"),
                ("CLIENT SETINFO LIB-NAME jedis", "+OK"),
                ("CLIENT SETINFO LIB-VER 7.2.0", "+OK"),
                ("READONLY", NO_CLUSTER),
            ],
            &[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", NO_MAINT)],
            &[("SELECT 1", "+OK")],
            &[("CLIENT TRACKING ON", "+OK")],
        ],
    },
    Handshake {
        name: "Lettuce 7",
        batches: &[
            &[("HELLO 3 AUTH default secret SETNAME me", HELLO)],
            &[("SELECT 1", "+OK")],
            &[
                ("CLIENT SETINFO lib-name Lettuce", "+OK"),
                ("CLIENT SETINFO lib-ver 7.2.0.RELEASE/abcdef0", "+OK"),
            ],
            &[("CLIENT MAINT_NOTIFICATIONS on moving-endpoint-type internal-ip", NO_MAINT)],
            &[("CLIENT TRACKING ON BCAST PREFIX lock: NOLOOP", "+OK")],
        ],
    },
    Handshake {
        name: "go-redis 9",
        batches: &[
            &[("hello 3 auth default secret setname me", HELLO)],
            &[("select 1", "+OK"), ("client setname me", "+OK")],
            &[(
                "client maint_notifications on moving-endpoint-type internal-ip",
                "-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP.",
            )],
            &[
                ("client setinfo LIB-NAME go-redis(,go1.25.1)", "+OK"),
                ("client setinfo LIB-VER 9.17.2", "+OK"),
            ],
            &[("ping", "+PONG")],
        ],
    },
    Handshake {
        name: "go-redis 9, whose server knows no such user",
        batches: &[&[("hello 3 auth nobody secret", NO_SUCH_USER)], &[("auth nobody secret", NO_SUCH_USER)]],
    },
    Handshake {
        name: "StackExchange.Redis 2.9, all in one write",
        batches: &[&[
            ("HELLO 3 AUTH default secret", HELLO),
            ("AUTH default secret", "+OK"),
            ("CLIENT SETNAME host(SE.Redis-v2.9.32)", "+OK"),
            ("CLIENT SETINFO lib-name SE.Redis", "+OK"),
            ("CLIENT SETINFO lib-ver 2.9.32.61475", "+OK"),
            ("CLIENT ID", ":~"),
            ("CONFIG GET timeout", "%1 $7 timeout $1 0"),
            ("CONFIG GET replica-read-only", "%1 $17 replica-read-only $3 yes"),
            ("CONFIG GET databases", "%1 $9 databases $2 16"),
            ("INFO replication", "=~ txt:# Replication role:master connected_slaves:0 ~"),
            ("INFO server", "=~ txt:# Server redis_version:~"),
            ("CLUSTER NODES", NO_CLUSTER),
            ("GET __Booksleeve_TieBreak", "_"),
            (
                r"ECHO \xb4\x00\x8a\x0d\x0a\xffT@\x01z\x24\xd9\x13\x7f\x80\xfe",
                r"$16 \xb4\x00\x8a\x0d\x0a\xffT@\x01z\x24\xd9\x13\x7f\x80\xfe",
            ),
            ("SUBSCRIBE __Booksleeve_MasterChanged", ">3 $9 subscribe $26 __Booksleeve_MasterChanged :1"),
        ]],
    },
    Handshake {
        name: "StackExchange.Redis 2.9 in RESP2, its connection for commands",
        batches: &[
            &[
                ("CLIENT SETNAME host(SE.Redis-v2.9.32)", "+OK"),
                ("CLIENT SETINFO lib-name SE.Redis", "+OK"),
                ("CONFIG GET timeout", "*2 $7 timeout $1 0"),
                ("CONFIG GET slave-read-only", "*2 $15 slave-read-only $3 yes"),
                ("CONFIG GET databases", "*2 $9 databases $2 16"),
                ("SENTINEL MASTERS", NO_SENTINEL),
                ("INFO replication", "$~ # Replication role:master connected_slaves:0 ~"),
                ("INFO server", "$~ # Server redis_version:~"),
                ("SET 0f8fad5b-d9cb-469f-a165-70867728950e replica-read-only PX 1 NX", "+OK"),
                ("CLUSTER NODES", NO_CLUSTER),
                ("GET __Booksleeve_TieBreak", "$-1"),
                (r"ECHO \x00\x01\x02", r"$3 \x00\x01\x02"),
            ],
            &[("PING", "+PONG")],
        ],
    },
    Handshake {
        name: "StackExchange.Redis 2.9 in RESP2, its connection for messages",
        batches: &[
            &[
                (r"ECHO \x00\x01\x02", r"$3 \x00\x01\x02"),
                ("SUBSCRIBE __Booksleeve_MasterChanged", "*3 $9 subscribe $26 __Booksleeve_MasterChanged :1"),
            ],
            &[("PING", "*2 $4 pong $0 ")],
            &[("UNSUBSCRIBE 0f8fad5b", "*3 $11 unsubscribe $8 0f8fad5b :1")],
        ],
    },
    Handshake {
        name: "redis-cli, and what looks at a server",
        batches: &[
            &[("HELLO", HELLO2), ("COMMAND DOCS get", "*2 $3 get *~")],
            &[
                ("COMMAND COUNT", ":~"),
                ("MODULE LIST", "*0"),
                ("DBSIZE", ":0"),
                ("ROLE", "*3 $6 master :0 *0"),
                ("WAIT 0 0", ":0"),
                ("CONFIG GET maxmemory", "*2 $9 maxmemory $1 0"),
                ("CONFIG GET nosuch", "*0"),
                ("CONFIG GET save appendonly", "*4 ~"),
                ("LATENCY LATEST", "*0"),
                ("LATENCY RESET", ":0"),
                ("SLOWLOG LEN", ":0"),
                ("MEMORY DOCTOR", "$~"),
                ("CLIENT LIST", "$~ id=~ addr=127.0.0.1:~ laddr=127.0.0.1:~ fd=~ name= age=~"),
                ("CLIENT NO-EVICT ON", "+OK"),
                ("CLIENT NO-TOUCH ON", "+OK"),
                ("CLIENT CAPA redirect", "-ERR unknown subcommand 'CAPA'. Try CLIENT HELP."),
                ("CLIENT GETNAME", "$-1"),
                ("HELLO 4", "-NOPROTO unsupported protocol version"),
                ("HELLO three", "-ERR Protocol version is not an integer or out of range"),
                ("HELLO 3 NOSUCH x", "-ERR Syntax error in HELLO option 'NOSUCH'"),
                (
                    "HELLO 2 SETNAME 'a b'",
                    "-ERR Client names cannot contain spaces, newlines or special characters.",
                ),
            ],
            &[("RESET", "+RESET")],
        ],
    },
];

/// Against a server with a password.
const LOCKED: &[Handshake] = &[
    Handshake {
        name: "a wrong password, then the right one",
        batches: &[
            &[
                (
                    "HELLO 3",
                    "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
                     <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                     the same time",
                ),
                ("CLIENT SETINFO LIB-NAME x", "-NOAUTH Authentication required."),
                ("INFO", "-NOAUTH Authentication required."),
                ("PING", "-NOAUTH Authentication required."),
                ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
                ("AUTH wrong", NO_SUCH_USER),
                ("HELLO 3 AUTH default wrong SETNAME me", NO_SUCH_USER),
                ("HELLO 3 AUTH default secret SETNAME me", HELLO),
            ],
            &[("CLIENT GETNAME", "$2 me")],
        ],
    },
    Handshake {
        name: "a password alone, as ever",
        batches: &[&[("AUTH secret", "+OK"), ("SELECT 1", "+OK"), ("PING", "+PONG")]],
    },
];

/// Against a node of a cluster that owns all slots.
const CLUSTER: &[Handshake] = &[
    Handshake {
        name: "redis-py 8.1.0",
        batches: &[&[("HELLO 3", HELLO)], &[("CLUSTER SLOTS", "*1 *3 :0 :16383 *4 ~ :~ $40 ~ %0")]],
    },
    Handshake {
        name: "ioredis 6.0.0",
        batches: &[
            &[("client setname ioredis-cluster(refresher)", "+OK")],
            &[("client SETINFO LIB-VER 6.0.0", "+OK"), ("client SETINFO LIB-NAME ioredis", "+OK")],
            &[("cluster SLOTS", "*1 *3 :0 :16383 *4 ~ :~ $40 ~ *0")],
            &[("cluster info", "$~ cluster_state:ok ~")],
        ],
    },
    Handshake {
        name: "Lettuce 7",
        batches: &[
            &[("HELLO 3", HELLO)],
            &[("CLUSTER NODES", "=~ txt:~:~@~ myself,master - 0 0 ~ connected 0-16383 ")],
            &[
                ("CLUSTER MYID", "$40 ~"),
                ("INFO", "=~ txt:# Server ~redis_mode:cluster ~cluster_enabled:1 ~"),
            ],
        ],
    },
    Handshake {
        name: "go-redis 9",
        batches: &[
            &[("hello 3", HELLO), ("readonly", "+OK")],
            &[("cluster slots", "*1 *3 :0 :16383 ~")],
            &[("command", "*~")],
        ],
    },
    Handshake {
        name: "Jedis 7, and what only a cluster answers",
        batches: &[
            &[("HELLO 3", HELLO)],
            &[
                ("CLUSTER SHARDS", "*1 %2 $5 slots *2 :0 :16383 $5 nodes *1 %~ ~"),
                ("ASKING", "+OK"),
                ("READWRITE", "+OK"),
                ("SELECT 0", "+OK"),
                ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
                ("CLUSTER KEYSLOT lock", ":8718"),
                ("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP."),
            ],
        ],
    },
];

/// The request's bytes.
fn bytes(request: &str) -> Vec<u8> {
    if let Some(line) = request.strip_prefix("inline ") {
        return format!("{line}\r\n").into_bytes();
    }
    let mut words: Vec<Vec<u8>> = Vec::new();
    for (at, part) in request.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(unescaped)),
            _ => words.push(part.into()),
        }
    }
    common::resp::request(&words)
}

fn unescaped(word: &str) -> Vec<u8> {
    let mut parts = word.split(r"\x");
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        out.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    out
}

/// A frame as the table writes it: line ends are blanks, what is no text is escaped.
fn shown(frame: &[u8]) -> String {
    let frame = frame.strip_suffix(b"\r\n").unwrap_or(frame);
    match std::str::from_utf8(frame) {
        Ok(text) if text.chars().all(|c| !c.is_control() || c == '\r' || c == '\n') => {
            text.replace("\r\n", " ").replace('\n', " ")
        }
        // Bytes: the length's line, then each that is no letter or sign by its number.
        _ => {
            let (length, rest) = frame.split_at(frame.iter().position(|b| *b == b'\r').unwrap_or(0));
            let rest: String = rest[2..]
                .iter()
                .map(|b| match b {
                    b'T' | b'@' | b'z' => (*b as char).to_string(),
                    b => format!(r"\x{b:02x}"),
                })
                .collect();
            format!("{} {rest}", String::from_utf8_lossy(length))
        }
    }
}

/// Whether `text` is what the pattern says; `~` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('~') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(tail, &rest[at..]))
        }),
    }
}

/// What a server of 7.0 says to what came with 7.2.
fn unknown_then(request: &str) -> Option<String> {
    let mut words = request.split_whitespace();
    let (command, sub) = (words.next()?, words.next()?);
    ADDED_IN_7_2
        .contains(&sub.to_ascii_uppercase().as_str())
        .then(|| format!("-ERR unknown subcommand '{sub}'. Try {} HELP.", command.to_ascii_uppercase()))
}

/// How the bytes reach the server.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As the library does: a batch, its replies, the next batch.
    Batches,
    /// Everything at once.
    AtOnce,
    /// Everything, in pieces that end anywhere.
    Pieces,
}

fn shake(server: &Server, handshake: &Handshake, way: Way, before_7_2: bool) {
    let mut client = server.client();
    let exchanges: Vec<&Exchange> = handshake.batches.iter().copied().flatten().collect();
    let all: Vec<u8> = exchanges.iter().flat_map(|(request, _)| bytes(request)).collect();
    let check = |client: &mut Client, (request, wanted): &Exchange| {
        let frame = client.frame().unwrap_or_else(|| panic!("{}: {request}: closed", handshake.name));
        let unknown = unknown_then(request).filter(|_| before_7_2);
        let wanted = unknown.as_deref().unwrap_or(wanted);
        let said = shown(&frame);
        assert!(
            fits(wanted, &said),
            "{}, {way:?}: {request}\n  said:   {said:.600}\n  wanted: {wanted}",
            handshake.name
        );
    };
    match way {
        Way::Batches => {
            for batch in handshake.batches {
                client.raw(&batch.iter().flat_map(|(request, _)| bytes(request)).collect::<Vec<_>>());
                batch.iter().for_each(|exchange| check(&mut client, exchange));
            }
        }
        Way::AtOnce => {
            client.raw(&all);
            exchanges.iter().for_each(|exchange| check(&mut client, exchange));
        }
        Way::Pieces => {
            all.chunks(7).for_each(|piece| client.raw(piece));
            exchanges.iter().for_each(|exchange| check(&mut client, exchange));
        }
    }
    if exchanges.last().is_some_and(|(request, _)| *request == "QUIT") {
        assert!(client.until_closed_or(PATIENCE), "{}: not closed after QUIT", handshake.name);
        return;
    }
    // The connection is open, and nothing is left over: the next reply is the next request's.
    client.send(&["NOSUCH", "last"]);
    let said = shown(&client.frame().unwrap_or_else(|| panic!("{}: closed", handshake.name)));
    let last = ["-ERR unknown command 'NOSUCH', with args beginning with: 'last' "];
    assert!(last.contains(&said.as_str()), "{}: {said}", handshake.name);
}

fn shake_all(server: &Server, handshakes: &[Handshake], before_7_2: bool) {
    for handshake in handshakes {
        for way in [Way::Batches, Way::AtOnce, Way::Pieces] {
            server.client().say("FLUSHALL");
            shake(server, handshake, way, before_7_2);
        }
    }
}

/// Slots for redis-server's node, which begins without.
fn with_slots(server: Server) -> Server {
    assert_eq!(server.client().say("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    common::until("the cluster", || {
        server.client().say("CLUSTER INFO").contains("cluster_state:ok").then_some(())
    });
    server
}

#[test]
fn of_a_server_alone() {
    shake_all(&Server::start(&[]), ALONE, !is_keylatch());
}

#[test]
fn of_a_server_with_a_password() {
    shake_all(&Server::start(&["--requirepass", "secret"]), LOCKED, !is_keylatch());
}

#[test]
fn of_a_cluster() {
    let server = Server::start(&["--cluster-enabled", "yes"]);
    let server = if is_keylatch() { server } else { with_slots(server) };
    shake_all(&server, CLUSTER, !is_keylatch());
}

/// The table says what Redis says.
#[test]
fn as_redis_answers() {
    shake_all(&Server::redis(&[]), ALONE, true);
    shake_all(&Server::redis(&["--requirepass", "secret"]), LOCKED, true);
    shake_all(&with_slots(Server::redis(&["--cluster-enabled", "yes"])), CLUSTER, true);
}

/// The version in the greeting is the one that is reported.
#[test]
fn the_version_of_the_greeting() {
    let server = Server::start(&[]);
    let wanted = if is_keylatch() { "version $5 7.2.4 " } else { "version $6 7.0.15 " };
    let mut client = server.client();
    client.send(&["HELLO", "3"]);
    let said = shown(&client.frame().expect("a greeting"));
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn the_pattern_fits_what_it_should() {
    assert!(fits("a~c", "abc") && fits("a~c", "ac") && fits("~", "") && fits("a~b~c", "a1b2c"));
    assert!(!fits("a~c", "abcd") && !fits("a", "ab") && !fits("~x", "y"));
    assert_eq!(bytes(r"ECHO \x00\x0d"), b"*2\r\n$4\r\nECHO\r\n$2\r\n\x00\r\r\n");
    assert_eq!(bytes("inline HELLO 3"), b"HELLO 3\r\n");
}

/// Whoever comes by loopback is told the address he has come by (ioredis needs one), all are told
/// what the operator announces.
#[test]
fn the_address_that_a_cluster_tells() {
    if !is_keylatch() {
        return;
    }
    let server = Server::start(&["--cluster-enabled", "yes"]);
    let mut client = server.client();
    let port = server.port;
    let told = |client: &mut Client| {
        let slots = client.say("CLUSTER SLOTS").replace("\r\n", " ");
        let nodes = client.say("CLUSTER NODES").replace("\r\n", " ");
        let shards = client.say("CLUSTER SHARDS").replace("\r\n", " ");
        (slots, nodes, shards)
    };
    let (slots, nodes, shards) = told(&mut client);
    assert!(slots.contains(&format!("*4 $9 127.0.0.1 :{port} $40 ")), "{slots}");
    assert!(
        nodes.contains(&format!(" 127.0.0.1:{port}@{} myself,master", u32::from(port) + 10_000)),
        "{nodes}"
    );
    let wanted = format!("$4 port :{port} $2 ip $9 127.0.0.1 $8 endpoint $9 127.0.0.1 ");
    assert!(shards.contains(&wanted), "{shards}");
    assert_eq!(client.say("CONFIG SET cluster-announce-ip 10.1.2.3 cluster-announce-port 7000"), "+OK");
    let (slots, nodes, shards) = told(&mut client);
    assert!(slots.contains("*4 $8 10.1.2.3 :7000 $40 "), "{slots}");
    assert!(nodes.contains(" 10.1.2.3:7000@"), "{nodes}");
    assert!(shards.contains("$4 port :7000 $2 ip $8 10.1.2.3 $8 endpoint $8 10.1.2.3 "), "{shards}");
}
