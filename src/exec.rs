//! `keylatch exec -- COMMAND …`: a server for the length of one command, as a CI file wants it. Not
//! here: the server (`embed`), the daemon (`daemon`).

use crate::embed::Builder;
use crate::nodes::Nodes;
use crate::server::Report;
use std::ffi::OsString;
use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::task::Poll;
use tokio::process::{Child, Command};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    params: Vec<(String, String)>,
    command: Vec<OsString>,
    /// Mistakes with locks are a failure.
    deny_findings: bool,
}

const USAGE: &str = "Usage: keylatch exec [--deny-findings] [--directive value ...] -- COMMAND [ARG ...]\n\
Starts a server on a free port of the loopback interface, runs COMMAND with REDIS_URL, REDIS_HOST and REDIS_PORT \
set, stops, and exits as COMMAND did; with --deny-findings by 3 where COMMAND succeeded but made mistakes with \
locks, which are printed. --nodes N starts N servers, their addresses in REDIS_URLS. --lock-report FILE writes a page with the locks' timeline at the end, or exits by 1 \
where it cannot.";

/// The code where COMMAND succeeded and there are findings.
const FOUND: u8 = 3;

/// The code where COMMAND succeeded and the lock report could not be written, or a server failed.
const UNWRITTEN: u8 = 1;

/// The shell's code for a command that was not found or could not be run.
const NOT_RUN: u8 = 127;

/// Runs `argv`, whose second word is `exec`; returns the exit code: COMMAND's, 128 and the signal
/// that ended it, 3 where there are findings and they are denied, 1 where there is no server or no
/// report, 127 where it cannot be run, 2 where the command line is wrong.
pub fn run(argv: &[OsString]) -> u8 {
    let plan = match Plan::read(&argv[2..]) {
        Ok(plan) => plan,
        Err(reason) => {
            eprintln!("keylatch: exec: {reason}\n{USAGE}");
            return 2;
        }
    };
    let asked = plan.params.iter();
    let builder = asked.fold(Builder::default(), |builder, (name, value)| builder.param(name, value));
    // One server, unless the line has --nodes.
    let servers = match builder.into_nodes().start() {
        Ok(servers) => servers,
        Err(error) => {
            eprintln!("keylatch: exec: {error}");
            return 1;
        }
    };
    if servers.iter().any(|server| server.addr().port() == 0) {
        eprintln!("keylatch: exec: bind: there is no TCP address to hand on");
        return 1;
    }
    let ended = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(attend(&plan.command, &servers)));
    match ended {
        Ok(status) => judge(code(status), servers, plan.deny_findings),
        Err(error) => {
            eprintln!("keylatch: exec: {}: {error}", plan.command[0].to_string_lossy());
            NOT_RUN
        }
    }
}

impl Plan {
    fn read(args: &[OsString]) -> Result<Plan, String> {
        let mut plan = Plan::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let word = arg.to_str().ok_or("an option is not text")?;
            let Some(name) = word.strip_prefix("--") else {
                return Err(format!("'{word}' stands before '--'"));
            };
            if name.is_empty() {
                plan.command = args.cloned().collect();
                break;
            }
            if name == "deny-findings" {
                plan.deny_findings = true;
                continue;
            }
            let value = args.next().and_then(|value| value.to_str());
            plan.params.push((name.to_owned(), value.ok_or(format!("'{word}' lacks its value"))?.to_owned()));
        }
        if plan.command.is_empty() { Err("no COMMAND".to_owned()) } else { Ok(plan) }
    }
}

/// Stops the servers and, with `deny_findings`, prints the mistakes that were seen; returns the code
/// to exit with.
fn judge(code: u8, servers: Nodes, deny_findings: bool) -> u8 {
    let (mut all, mut blind) = (Vec::new(), false);
    let (mut failed, mut report) = (false, Report::Settled);
    let several = servers.len() > 1;
    for server in servers.into_servers() {
        let addr = server.addr();
        // The panic has been printed.
        let Ok(end) = server.end() else {
            failed = true;
            continue;
        };
        if end.report == Report::Lost {
            report = Report::Lost;
        }
        match end.findings {
            Some(findings) => {
                all.extend(findings.iter().map(|finding| match several {
                    false => finding.to_string(),
                    true => format!("on {addr}: {finding}"),
                }));
            }
            None => blind = true,
        }
    }
    let trouble = deny_findings && told(&all, failed, blind);
    match code {
        0 if trouble => FOUND,
        0 if failed || report == Report::Lost => UNWRITTEN,
        code => code,
    }
}

/// Prints the mistakes; tells if there are any, or nothing to know them by.
fn told(all: &[String], failed: bool, blind: bool) -> bool {
    if failed {
        eprintln!("keylatch: --deny-findings has nothing to go by: a server has failed");
    } else if blind {
        eprintln!("keylatch: --deny-findings has nothing to go by: lock-history-len is 0");
    } else if all.is_empty() {
        return false;
    } else {
        eprintln!("keylatch: {} with locks:", counted(all.len(), "mistake"));
    }
    for (i, finding) in all.iter().enumerate() {
        eprintln!("{}. {finding}", i + 1);
    }
    true
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Runs `command` and passes on the signals that come meanwhile.
async fn attend(command: &[OsString], servers: &Nodes) -> std::io::Result<ExitStatus> {
    // Before the child is there, so that none is lost.
    let mut signals = Signals::new()?;
    let addr = servers[0].addr();
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .env("REDIS_URL", servers[0].url())
        .env("REDIS_URLS", servers.urls().join(","))
        .env("REDIS_HOST", addr.ip().to_string())
        .env("REDIS_PORT", addr.port().to_string())
        .spawn()?;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            number = signals.next() => pass_on(&child, number),
        }
    }
}

/// Those that would end this process, and of which COMMAND may make something of its own.
const PASSED_ON: [i32; 7] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

struct Signals(Vec<(i32, Signal)>);

impl Signals {
    fn new() -> std::io::Result<Self> {
        let listen = |number| Ok((number, signal(SignalKind::from_raw(number))?));
        PASSED_ON.into_iter().map(listen).collect::<Result<_, _>>().map(Signals)
    }

    async fn next(&mut self) -> i32 {
        poll_fn(|cx| {
            let came = self.0.iter_mut().find_map(|(number, signal)| {
                // Each that has not come wakes us when it does.
                signal.poll_recv(cx).is_ready().then_some(*number)
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn pass_on(child: &Child, number: i32) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // SAFETY: `kill` touches no memory; the child has not been waited for, so the id is its own.
        unsafe { libc::kill(pid, number) };
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<OsString> {
        ["keylatch", "exec"].iter().chain(words).map(OsString::from).collect()
    }

    #[test]
    fn the_commands_code_is_ours() {
        let sh = |script| argv(&["--", "sh", "-c", script]);
        assert_eq!(run(&sh("exit 0")), 0);
        assert_eq!(run(&sh("exit 7")), 7);
        assert_eq!(run(&sh("kill -9 $$")), 137);
        assert_eq!(run(&sh("test \"redis://$REDIS_HOST:$REDIS_PORT\" = \"$REDIS_URL\"")), 0);
        let three = "test $(echo $REDIS_URLS | tr , '\\n' | sort -u | wc -l) = 3 && test ${REDIS_URLS%%,*} = $REDIS_URL";
        assert_eq!(run(&argv(&["--nodes", "3", "--", "sh", "-c", three])), 0);
        assert_eq!(run(&argv(&["--", "/nonexistent/command"])), 127);
        assert_eq!(run(&argv(&["--bind", "", "--", "true"])), 1);
    }

    /// A server that listens everywhere is reached by the loopback interface, in each family.
    #[test]
    fn an_address_that_works_is_handed_on() {
        let asks = |host: &str, url: &str| {
            let talk = "exec 3<>/dev/tcp/$REDIS_HOST/$REDIS_PORT; printf 'PING\\r\\n' >&3; read -r said <&3";
            let checks = format!(
                "test $REDIS_HOST = {host} && test $REDIS_URL = redis://{url}:$REDIS_PORT && {talk} && test \"$said\" = $'+PONG\\r'"
            );
            argv(&["bash", "-c", &checks]).split_off(2)
        };
        let bound = |bind: &str, command: &[OsString]| {
            let options = argv(&["--bind", bind, "--protected-mode", "no", "--"]);
            run(&[&options, command].concat())
        };
        let v4 = asks("127.0.0.1", "127.0.0.1");
        for bind in ["0.0.0.0", "*", "localhost", "-192.0.2.1 127.0.0.1"] {
            assert_eq!(bound(bind, &v4), 0, "{bind}");
        }
        let v6 = asks("::1", "[::1]");
        for bind in ["::", "::*", "::1 127.0.0.1"] {
            assert_eq!(bound(bind, &v6), 0, "{bind}");
        }
    }

    #[test]
    fn a_report_that_cannot_be_written_is_a_failure() {
        let dir = tempfile::tempdir().expect("a directory");
        let page = dir.path().join("in").join("locks.html");
        let spoil = |then: &str, deny: &[&str]| {
            std::fs::create_dir_all(dir.path().join("in")).expect("a directory");
            let script = format!("rm -r {}; {then}", dir.path().join("in").display());
            let page = page.display().to_string();
            run(&argv(&[deny, &["--lock-report", &page, "--", "sh", "-c", &script]].concat()))
        };
        assert_eq!(spoil("exit 0", &[]), 1);
        assert_eq!(spoil("exit 7", &[]), 7);
        assert_eq!(spoil("exit 0", &["--deny-findings"]), 1);
    }

    #[test]
    fn the_url_has_the_password() {
        let asked = "test \"$REDIS_URL\" = \"redis://:p%40%2F1@$REDIS_HOST:$REDIS_PORT\"";
        assert_eq!(run(&argv(&["--requirepass", "p@/1", "--", "sh", "-c", asked])), 0);
    }

    /// A client may stop a server with SHUTDOWN; what was seen until then counts.
    #[test]
    fn a_stopped_server_is_judged() {
        let ask = |words: &str| {
            let talk = "exec 3<>/dev/tcp/$REDIS_HOST/$REDIS_PORT; printf '";
            argv(&[
                "--deny-findings",
                "--",
                "bash",
                "-c",
                &format!("{talk}{words}SHUTDOWN NOSAVE\\r\\n' >&3; cat <&3"),
            ])
        };
        assert_eq!(run(&ask("KEYS *\\r\\n")), 3);
        assert_eq!(run(&ask("PING\\r\\n")), 0);
    }

    #[test]
    fn a_wrong_line_is_refused() {
        assert_eq!(run(&argv(&[])), 2);
        assert_eq!(run(&argv(&["--"])), 2);
        assert_eq!(run(&argv(&["sh"])), 2);
        assert_eq!(run(&argv(&["--databases"])), 2);
        assert_eq!(run(&argv(&["--databases", "x", "--", "true"])), 1);
    }
}
