//! redis.conf's syntax and redis-server's command line, read into a `Config`; `ConfigError` says
//! where a start failed. Not here: which parameters there are (`params.rs`), and writing the file
//! back (`rewrite.rs`).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::params::{Config, find};
use super::value::Refusal;
use crate::base::process::os_reason;
use crate::base::words;

/// How deep files may include each other; a file that includes itself ends here.
const INCLUDE_DEPTH_MAX: usize = 16;

/// What ends a start: one line that names file, line and directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, `standard input`, or `command line`.
    pub place: String,
    /// From 1; `None` on the command line, and where a file cannot be read at all.
    pub line: Option<usize>,
    /// The directive as written; empty where a file cannot be read.
    pub directive: String,
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*** FATAL CONFIG ERROR (keylatch {}) *** {}", env!("CARGO_PKG_VERSION"), self.place)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if !self.directive.is_empty() {
            write!(f, ", directive '{}'", self.directive)?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for ConfigError {}

/// What a command line asks for.
#[derive(Debug)]
pub enum Startup {
    /// Run a server.
    Run(Box<Config>),
    /// Print this and exit with 0.
    Print(String),
    /// Print this to the standard error and exit with 1.
    Usage(String),
}

/// Where a directive stands.
struct Source<'a> {
    place: &'a str,
    line: Option<usize>,
    directive: &'a [u8],
}

impl Source<'_> {
    fn error(&self, reason: impl Into<Refusal>) -> ConfigError {
        ConfigError {
            place: self.place.to_string(),
            line: self.line,
            directive: String::from_utf8_lossy(self.directive).into_owned(),
            reason: reason.into().into_owned(),
        }
    }
}

/// One option of the command line with its arguments.
#[derive(Default)]
struct CommandLineOption {
    shown: Vec<u8>,
    words: Vec<Vec<u8>>,
    balanced: bool,
}

impl Config {
    /// Reads a command line; `argv[0]` is the program's name. Files come first, then the standard
    /// input where `-` asks for it, then the options: the last one that names a parameter wins.
    pub fn from_args(argv: &[OsString]) -> Result<Startup, ConfigError> {
        let program = argv.first().map_or("keylatch".into(), |name| name.to_string_lossy());
        match argv.get(1).map(|arg| arg.as_bytes()) {
            Some(b"-v" | b"--version") => return Ok(Startup::Print(version())),
            Some(b"-h" | b"--help") => return Ok(Startup::Usage(usage(&program))),
            _ => {}
        }
        let mut config = Config::default();
        let mut rest = argv.get(1..).unwrap_or(&[]);
        if let Some((first, others)) = rest.split_first()
            && !first.as_bytes().starts_with(b"-")
        {
            rest = others;
            let path = std::path::absolute(first).unwrap_or_else(|_| PathBuf::from(first));
            config.load_file(&path, 0)?;
            config.file = Some(path);
        }
        let (options, from_stdin) = split_options(rest);
        if from_stdin {
            let mut text = Vec::new();
            let source = Source { place: "standard input", line: None, directive: b"" };
            std::io::stdin().read_to_end(&mut text).map_err(|error| source.error(error.to_string()))?;
            config.load_text("standard input", &text, 0)?;
        }
        for option in &options {
            let source = Source { place: "command line", line: None, directive: &option.shown };
            if !option.balanced {
                return Err(source.error("Unbalanced quotes in configuration line"));
            }
            config.directive(&option.words, &source, 0)?;
        }
        Ok(Startup::Run(Box::new(config)))
    }

    fn load_file(&mut self, path: &Path, depth: usize) -> Result<(), ConfigError> {
        let place = path.to_string_lossy().into_owned();
        let text = std::fs::read(path).map_err(|error| {
            Source { place: &place, line: None, directive: b"" }
                .error(format!("can't open config file: {}", os_reason(&error)))
        })?;
        self.load_text(&place, &text, depth)
    }

    /// Reads the text of a file called `place`.
    fn load_text(&mut self, place: &str, text: &[u8], depth: usize) -> Result<(), ConfigError> {
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let source = Source { place, line: Some(number + 1), directive: line };
            let Some(words) = words::split(line) else {
                return Err(source.error("Unbalanced quotes in configuration line"));
            };
            self.directive(&words, &source, depth)?;
        }
        Ok(())
    }

    /// Reads one directive with its arguments.
    fn directive(&mut self, words: &[Vec<u8>], source: &Source<'_>, depth: usize) -> Result<(), ConfigError> {
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        if let Some(param) = find(name) {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let read = match values[..] {
                // One quoted argument may hold all the words: `save "900 1 300 10"`.
                [value] if param.kind.takes_words() => param.read_value(self, value),
                _ => param.read(self, &values),
            };
            return read.map_err(|refusal| source.error(refusal));
        }
        if name.eq_ignore_ascii_case(b"include") && values.len() == 1 {
            return self.include(&values[0], source, depth);
        }
        let absent = ABSENT.iter().find(|(names, _)| names.iter().any(|own| starts_with(name, own)));
        Err(source.error(absent.map_or("Bad directive or wrong number of arguments", |(_, why)| why)))
    }

    fn include(&mut self, pattern: &[u8], source: &Source<'_>, depth: usize) -> Result<(), ConfigError> {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(source.error("files include each other too deeply"));
        }
        let path = self.dir.0.join(OsStr::from_bytes(pattern));
        if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
            if let Err(error) = std::fs::metadata(&path) {
                return Err(source.error(format!("can't open config file: {}", os_reason(&error))));
            }
            return self.load_file(&path, depth + 1);
        }
        // A pattern that matches nothing includes nothing.
        let found = glob::glob(&path.to_string_lossy()).map_err(|error| source.error(error.to_string()))?;
        for path in found.flatten() {
            self.load_file(&path, depth + 1)?;
        }
        Ok(())
    }
}

fn starts_with(name: &[u8], prefix: &str) -> bool {
    name.len() >= prefix.len() && name[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
}

/// Redis's directives that name something keylatch does not have, by the start of their names.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["replicaof", "slaveof", "masterauth", "masteruser", "replica-", "slave-", "repl-", "min-"],
        "keylatch has no replication",
    ),
    (&["tls-"], "keylatch does not speak TLS"),
    (&["user", "aclfile", "acl"], "keylatch has one user, whose password requirepass sets"),
    (&["rename-command"], "keylatch does not rename commands"),
    (&["loadmodule"], "keylatch loads no modules"),
    (&["syslog-"], "keylatch logs to the standard output or to logfile, not to syslog"),
    (&["sentinel"], "keylatch is no sentinel"),
    (&["cluster-"], "keylatch's cluster is one node: this directive has no meaning there"),
    (&["maxmemory-clients"], "keylatch does not evict clients"),
];

/// Cuts the command line into options. An argument that begins with `--` starts one, unless it is
/// the first argument of the one before: `--requirepass --x` sets the password `--x`. A `-` at
/// either end asks for the standard input.
fn split_options(args: &[OsString]) -> (Vec<CommandLineOption>, bool) {
    let mut options: Vec<CommandLineOption> = Vec::new();
    let (mut from_stdin, mut may_start) = (false, true);
    for (at, arg) in args.iter().enumerate() {
        let (bytes, last) = (arg.as_bytes(), at + 1 == args.len());
        if bytes == b"-" && (at == 0 || last) {
            from_stdin = true;
        } else if may_start && bytes.starts_with(b"--") {
            let split = words::split(&bytes[2..]);
            let mut option = CommandLineOption {
                shown: bytes.to_vec(),
                balanced: split.is_some(),
                words: split.unwrap_or_default(),
            };
            may_start = option.words.len() > 1;
            // An empty list from a script: `--save --port 0`, and `--save` at the end.
            let bare_save = bytes.eq_ignore_ascii_case(b"--save");
            if bare_save && (last || args[at + 1].as_bytes().starts_with(b"--")) {
                option.words.push(Vec::new());
                may_start = true;
            }
            options.push(option);
        } else {
            if options.is_empty() {
                options.push(CommandLineOption { balanced: true, ..CommandLineOption::default() });
            }
            if let Some(option) = options.last_mut() {
                if !option.shown.is_empty() {
                    option.shown.push(b' ');
                }
                option.shown.extend_from_slice(bytes);
                option.words.push(arg.clone().into_vec());
            }
            may_start = true;
        }
    }
    (options, from_stdin)
}

/// Scripts that look for a server's version take the first number: it is the reported one.
fn version() -> String {
    let reported = Config::default().compat_version.text;
    format!(
        "keylatch server v={reported} (as it answers its clients) bits=64 build=keylatch-{}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn usage(program: &str) -> String {
    format!(
        "Usage: {program} [/path/to/keylatch.conf] [--directive value ...] [-]\n\
         \x20      {program} - (reads the configuration from the standard input)\n\
         \x20      {program} -v or --version\n\
         \x20      {program} -h or --help\n\
         \n\
         The file has redis.conf's syntax; a directive on the command line wins over it.\n\
         docs/configuration.md lists the directives.\n\
         \n\
         Examples:\n\
         \x20      {program} (the defaults: port 6379)\n\
         \x20      {program} --port 0 --port-file /tmp/port (a free port, written to a file)\n\
         \x20      {program} /etc/keylatch.conf --loglevel verbose\n\
         \x20      echo 'maxmemory 128mb' | {program} -\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<Box<Config>, String> {
        let argv: Vec<OsString> =
            std::iter::once("keylatch").chain(args.iter().copied()).map(Into::into).collect();
        match Config::from_args(&argv) {
            Ok(Startup::Run(config)) => Ok(config),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refused(args: &[&str], expected: &str) {
        let line = run(args).expect_err("it must be refused");
        assert!(line.ends_with(expected), "{line}");
        assert!(line.starts_with("*** FATAL CONFIG ERROR (keylatch "), "{line}");
    }

    #[test]
    fn the_command_line_is_read_as_redis_server_reads_it() {
        let config = run(&["--port", "0", "--save", "", "--hz 50", "--bind", "127.0.0.1", "-::1"])
            .expect("a sound command line");
        assert_eq!((config.port, config.hz), (0, 50));
        assert_eq!(config.bind.0, ["127.0.0.1", "-::1"]);
        assert_eq!(run(&["--save", "--port", "7"]).map(|c| c.port), Ok(7));
        assert_eq!(run(&["--port", "7", "--save"]).map(|c| c.port), Ok(7));
        assert_eq!(run(&["--port", "7", "--PORT", "8"]).map(|c| c.port), Ok(8));
        assert_eq!(run(&["--requirepass", "--x"]).map(|c| c.requirepass.clone()), Ok(b"--x".to_vec()));
    }

    #[test]
    fn what_is_wrong_on_the_command_line_is_named() {
        refused(&["--port"], "command line, directive '--port': wrong number of arguments");
        refused(&["--port", "1", "2"], "directive '--port 1 2': wrong number of arguments");
        refused(&["--port", "abc"], "directive '--port abc': argument couldn't be parsed into an integer");
        refused(&["--hz", "--maxclients", "5"], "'--hz --maxclients 5': wrong number of arguments");
        refused(&["--foo", "bar"], "'--foo bar': Bad directive or wrong number of arguments");
        refused(&["--", "--port", "x"], "'-- --port x': Bad directive or wrong number of arguments");
        refused(&["-x"], "directive '-x': Bad directive or wrong number of arguments");
        refused(&["--replicaof", "no", "one"], "keylatch has no replication");
        refused(&["--unixsocketperm", "999"], "argument couldn't be parsed as an octal number");
        refused(
            &["/nonexistent.conf"],
            "/nonexistent.conf: can't open config file: No such file or directory",
        );
    }

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.conf");
        std::fs::write(&path, text).expect("a file in it");
        (dir, path.to_string_lossy().into_owned())
    }

    #[test]
    fn a_file_has_comments_quotes_and_blanks() {
        let text = "# top\r\n\n  port 7\r\nrequirepass \"a b\\\"c\"\n\t# in\nHZ '20'\nsave\n\
                    client-output-buffer-limit normal 1 2 3 pubsub 1kb 2 3\nmaxmemory 100mb";
        let (_dir, path) = file(text);
        let config = run(&[&path]).expect("a sound file");
        assert_eq!((config.port, config.hz, config.maxmemory), (7, 20, 100 << 20));
        assert_eq!(config.requirepass, b"a b\"c");
        assert_eq!(config.client_output_buffer_limit.pubsub.hard, 1024);
        assert_eq!(config.file.as_deref(), Some(Path::new(&path)));
        assert_eq!(run(&[&path, "--port", "8"]).map(|c| c.port), Ok(8));
    }

    #[test]
    fn a_fault_in_a_file_is_named_with_its_line() {
        for (line, reason) in [
            ("hz \"10", "Unbalanced quotes in configuration line"),
            ("hz \"5\"x", "Unbalanced quotes in configuration line"),
            ("hz 10 11", "wrong number of arguments"),
            ("hz 9 # comment", "wrong number of arguments"),
            ("hz", "wrong number of arguments"),
            ("foo", "Bad directive or wrong number of arguments"),
            ("include", "Bad directive or wrong number of arguments"),
            ("include /nonexistent.conf", "can't open config file: No such file or directory"),
            (
                "client-output-buffer-limit normal 1 2",
                "Wrong number of arguments in buffer limit configuration.",
            ),
            ("save 900", "Invalid save parameters"),
            ("bind a b c d e f g h i j k l m n o p q", "Too many bind addresses specified."),
            ("dir /nonexistent", "No such file or directory"),
            ("rename-command CONFIG x", "keylatch does not rename commands"),
        ] {
            let (_dir, path) = file(&format!("port 0\n{line}\nhz x"));
            refused(&[&path], &format!("{path}, line 2, directive '{line}': {reason}"));
        }
    }

    #[test]
    fn files_include_others() {
        let (dir, path) = file("");
        let pattern = dir.path().join("part*.conf");
        std::fs::write(
            &path,
            format!("include {}\nhz 7\ninclude {}/none*.conf", pattern.display(), dir.path().display()),
        )
        .expect("written");
        std::fs::write(dir.path().join("part1.conf"), "port 1\nhz 3").expect("written");
        std::fs::write(dir.path().join("part2.conf"), "port 2").expect("written");
        let config = run(&[&path]).expect("a sound file");
        assert_eq!((config.port, config.hz), (2, 7));
        let part2 = dir.path().join("part2.conf");
        std::fs::write(&part2, "\nfoo").expect("written");
        refused(
            &[&path],
            &format!(
                "{}, line 2, directive 'foo': Bad directive or wrong number of arguments",
                part2.display()
            ),
        );
        std::fs::write(&part2, format!("include {path}")).expect("written");
        refused(&[&path], "files include each other too deeply");
    }
}
