//! docs/scripting.md, run: its scripts do what it says, on both servers, and its lists of names are the
//! server's.

use crate::common::{Client, Server, is_keylatch};
use crate::pair;

const PAGE: &str = include_str!("../../docs/scripting.md");

/// The page's code blocks in Lua.
fn blocks() -> Vec<&'static str> {
    PAGE.split("```lua\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

/// The script that begins with `-- NAME:`.
fn script(name: &str) -> &'static str {
    let begin = format!("-- {name}: ");
    blocks().into_iter().find(|block| block.starts_with(&begin)).unwrap_or_else(|| panic!("no script {name}"))
}

/// Runs a script of the page; `words` are its key count, keys and arguments.
fn run(client: &mut Client, name: &str, words: &str) -> String {
    let mut args = vec!["EVAL", script(name)];
    args.extend(words.split_whitespace());
    client.call(&args)
}

/// Milliseconds until the key's end.
fn left(client: &mut Client, key: &str) -> i64 {
    let reply = client.say(&format!("PTTL {key}"));
    reply.strip_prefix(':').and_then(|n| n.parse().ok()).expect("PTTL gives a number")
}

fn with_both(test: impl Fn(&mut Client)) {
    let (ours, theirs) = pair();
    for server in [&ours, &theirs] {
        let mut client = Server::client(server);
        client.say("FLUSHALL");
        test(&mut client);
    }
}

#[test]
fn the_page_has_no_script_that_is_not_run() {
    let names = ["-- acquire: ", "-- release: ", "-- renew: ", "-- semaphore: ", "#!lua name=locks\n"];
    for block in blocks() {
        assert!(names.iter().any(|name| block.starts_with(name)), "no test runs {block}");
    }
    assert_eq!(blocks().len(), names.len());
}

#[test]
fn a_lock_is_acquired_once_and_its_fencing_token_grows() {
    with_both(|client| {
        assert_eq!(run(client, "acquire", "2 lock fence one 30000"), ":1");
        assert_eq!(client.say("GET lock"), "$3\r\none");
        assert!((1..=30_000).contains(&left(client, "lock")));
        assert_eq!(run(client, "acquire", "2 lock fence two 30000"), "$-1");
        assert_eq!(run(client, "acquire", "2 lock fence one 30000"), "$-1", "it is not reentrant");
        assert_eq!(run(client, "release", "1 lock one"), ":1");
        assert_eq!(run(client, "acquire", "2 lock fence two 30000"), ":2");
        // What fails leaves no lock.
        assert_eq!(run(client, "release", "1 lock two"), ":1");
        assert!(run(client, "acquire", "2 lock fence three soon").starts_with("-ERR"));
        assert_eq!(client.say("EXISTS lock"), ":0");
        client.say("SET fence broken");
        assert!(run(client, "acquire", "2 lock fence three 30000").starts_with("-ERR"));
        assert_eq!(client.say("EXISTS lock"), ":0");
    });
}

#[test]
fn only_the_holder_releases_and_renews() {
    with_both(|client| {
        client.say("SET lock mine PX 30000");
        assert_eq!(run(client, "release", "1 lock other"), ":0");
        assert_eq!(run(client, "renew", "1 lock other 90000"), ":0");
        assert_eq!(client.say("GET lock"), "$4\r\nmine");
        assert!((1..=30_000).contains(&left(client, "lock")));
        assert_eq!(run(client, "renew", "1 lock mine 90000"), ":1");
        assert!((30_001..=90_000).contains(&left(client, "lock")));
        assert!(run(client, "renew", "1 lock mine soon").starts_with("-ERR"));
        assert_eq!(run(client, "release", "1 lock mine"), ":1");
        assert_eq!(run(client, "release", "1 lock mine"), ":0");
        assert_eq!(run(client, "renew", "1 lock mine 90000"), ":0");
        assert_eq!(client.say("EXISTS lock"), ":0", "renewing makes no lock");
        client.say("SET lock mine PX 30000");
        assert_eq!(run(client, "renew", "1 lock mine 0"), ":1");
        assert_eq!(client.say("EXISTS lock"), ":0");
    });
}

#[test]
fn a_semaphore_has_as_many_places_as_keys() {
    with_both(|client| {
        let mut ask =
            |token: &str| run(client, "semaphore", &format!("3 {{s}}:1 {{s}}:2 {{s}}:3 {token} 30000"));
        assert_eq!([ask("a"), ask("b"), ask("c"), ask("d")], [":1", ":2", ":3", ":0"]);
        assert_eq!([ask("b"), ask("d")], [":2", ":0"], "a holder keeps its place");
        assert_eq!(run(client, "release", "1 {s}:2 d"), ":0");
        assert_eq!(run(client, "renew", "1 {s}:2 b 90000"), ":1");
        assert_eq!(run(client, "release", "1 {s}:2 b"), ":1");
        let words = "3 {s}:1 {s}:2 {s}:3 d 30000";
        assert_eq!(run(client, "semaphore", words), ":2");
        assert!((1..=30_000).contains(&left(client, "{s}:2")));
    });
}

#[test]
fn the_library_of_the_page_does_the_same() {
    with_both(|client| {
        let library = blocks().into_iter().find(|block| block.starts_with("#!lua")).expect("it is there");
        assert_eq!(client.call(&["FUNCTION", "LOAD", "REPLACE", library]), "$5\r\nlocks");
        client.say("SET lock mine PX 30000");
        assert_eq!(client.say("FCALL_RO lock_holder 1 lock"), "$4\r\nmine");
        assert_eq!(client.say("FCALL lock_renew 1 lock other 90000"), ":0");
        assert_eq!(client.say("FCALL lock_renew 1 lock mine 90000"), ":1");
        assert_eq!(client.say("FCALL lock_release 1 lock other"), ":0");
        assert_eq!(client.say("FCALL lock_release 1 lock mine"), ":1");
        assert_eq!(client.say("FCALL lock_release 1 lock mine"), ":0");
        assert!(client.say("FCALL_RO lock_release 1 lock mine").starts_with("-ERR Can not execute"));
    });
}

#[test]
fn the_names_on_the_page_are_the_servers() {
    let (ours, theirs) = pair();
    let table = PAGE.split("| table | names |").nth(1).expect("the table is there");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut tables = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let table = cells[1].trim_matches('`');
        let table = if table == "globals" { "_G" } else { table };
        let mut names: Vec<&str> = cells[2].split_whitespace().map(|name| name.trim_matches('`')).collect();
        names.sort_unstable();
        let script = format!(
            "local t = {{}} for k in pairs({table}) do if k ~= 'KEYS' and k ~= 'ARGV' then t[#t + 1] = k end end \
             table.sort(t) return table.concat(t, ' ')"
        );
        for (server, has_server) in [(&ours, is_keylatch()), (&theirs, false)] {
            let expected: Vec<&str> =
                names.iter().copied().filter(|&name| name != "server" || has_server).collect();
            let told = server.client().call(&["EVAL", &script, "0"]);
            assert_eq!(told.split_once("\r\n").expect("a string").1, expected.join(" "), "{table}");
        }
        tables += 1;
    }
    assert_eq!(tables, 10);
}
