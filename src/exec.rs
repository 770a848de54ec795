//! `keylatch exec -- COMMAND …`: a server for the length of one command, as a CI file wants it. Not
//! here: the server (`embed`), the daemon (`daemon`).

use crate::embed::Builder;
use crate::nodes::Nodes;
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
locks, which are printed. --nodes N starts N servers, their addresses in REDIS_URLS. --lock-report FILE writes a page with the locks' timeline at the end.";

/// The code where COMMAND succeeded and there are findings.
const FOUND: u8 = 3;

/// The shell's code for a command that was not found or could not be run.
const NOT_RUN: u8 = 127;

/// Runs `argv`, whose second word is `exec`; returns the exit code: COMMAND's, 128 and the signal
/// that ended it, 3 where there are findings and they are denied, 127 where it cannot be run, 2 where
/// the command line is wrong.
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
        Ok(status) if plan.deny_findings => judge(code(status), servers),
        Ok(status) => code(status),
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

/// Stops the servers and prints the mistakes that were seen; returns the code to exit with.
fn judge(code: u8, servers: Nodes) -> u8 {
    let (mut all, mut blind) = (Vec::new(), false);
    let mut failed = false;
    let several = servers.len() > 1;
    for server in servers.into_servers() {
        let addr = server.addr();
        match server.end() {
            Ok(Some(findings)) => {
                all.extend(findings.iter().map(|finding| match several {
                    false => finding.to_string(),
                    true => format!("on {addr}: {finding}"),
                }));
            }
            Ok(None) => blind = true,
            // The panic has been printed.
            Err(_) => failed = true,
        }
    }
    if failed {
        eprintln!("keylatch: --deny-findings has nothing to go by: a server has failed");
    } else if blind {
        eprintln!("keylatch: --deny-findings has nothing to go by: lock-history-len is 0");
    } else if all.is_empty() {
        return code;
    } else {
        eprintln!("keylatch: {} with locks:", counted(all.len(), "mistake"));
    }
    for (i, finding) in all.iter().enumerate() {
        eprintln!("{}. {finding}", i + 1);
    }
    if code == 0 { FOUND } else { code }
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
