//! The log: `tracing` events at Redis's levels, as Redis's lines or as JSON, to the standard
//! output or a file. Not here: what is logged.
//!
//! Redis's debug, verbose, notice and warning are `trace!`, `debug!`, `info!` and `warn!`
//! (`error!` counts as a warning).

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::base::clock::Clock;
use crate::base::process::local_time;
use crate::config::{Config, LogFormat, LogLevel};

/// Changes the level while the server runs.
#[derive(Clone, Debug)]
pub struct LogHandle(reload::Handle<Targets, tracing_subscriber::Registry>);

impl LogHandle {
    /// Logs from `level` on.
    pub fn set_level(&self, level: LogLevel) {
        // It fails only once the subscriber is gone, and then nobody logs.
        let _ = self.0.reload(only_ours(level));
    }
}

/// Libraries are not heard: their levels mean other things.
fn only_ours(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
    };
    Targets::new().with_target("keylatch", level)
}

/// Starts the process's log as `config` has it.
pub fn start(config: &Config) -> Result<LogHandle, TryInitError> {
    let (filter, handle) = reload::Layer::new(only_ours(config.loglevel));
    let layer = tracing_subscriber::fmt::layer()
        .event_format(Lines { format: config.log_format, pid: std::process::id() })
        .with_writer(Target::of(config));
    tracing_subscriber::registry().with(filter).with(layer).try_init()?;
    Ok(LogHandle(handle))
}

/// Whether the file to log to can be opened.
pub fn check_file(config: &Config) -> io::Result<()> {
    match Target::of(config) {
        Target::Stdout => Ok(()),
        Target::File(path) => open(&path).map(drop),
    }
}

/// Where lines go.
#[derive(Debug)]
enum Target {
    Stdout,
    File(PathBuf),
}

impl Target {
    fn of(config: &Config) -> Target {
        if config.logfile.as_os_str().is_empty() {
            Target::Stdout
        } else {
            Target::File(config.dir.0.join(&config.logfile))
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// One line's way out. The file is opened for each line, as Redis does it: whoever rotates the log
/// just moves it away.
enum Sink {
    Stdout(io::Stdout),
    File(io::Result<File>),
}

impl<'a> MakeWriter<'a> for Target {
    type Writer = Sink;
    fn make_writer(&'a self) -> Sink {
        match self {
            Target::Stdout => Sink::Stdout(io::stdout()),
            Target::File(path) => Sink::File(open(path)),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            // A log that cannot be written must not stop the server: the line is lost.
            Sink::Stdout(out) => Ok(out.write(bytes).unwrap_or(bytes.len())),
            Sink::File(Ok(file)) => Ok(file.write(bytes).unwrap_or(bytes.len())),
            Sink::File(Err(_)) => Ok(bytes.len()),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(out) => out.flush(),
            Sink::File(_) => Ok(()),
        }
    }
}

/// What a line looks like.
struct Lines {
    format: LogFormat,
    pid: u32,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let now = Clock::System.now().0;
        let mut parts = Parts::default();
        event.record(&mut parts);
        let line = line(self.format, self.pid, now, *event.metadata().level(), &parts);
        out.write_str(&line)
    }
}

/// An event's message and its other fields.
#[derive(Default)]
struct Parts {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }
}

impl Parts {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.fields.push((name, value)),
        }
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// One line, its end included. `now_ms` is absolute.
fn line(format: LogFormat, pid: u32, now_ms: i64, level: Level, parts: &Parts) -> String {
    let (word, mark) = match level {
        Level::TRACE => ("debug", '.'),
        Level::DEBUG => ("verbose", '-'),
        Level::INFO => ("notice", '*'),
        _ => ("warning", '#'),
    };
    let mut out = String::new();
    match format {
        LogFormat::Human => {
            let t = local_time(now_ms.div_euclid(1000));
            let month = MONTHS[t.month.min(11)];
            let (day, year, hour, minute, second) = (t.day, t.year, t.hour, t.minute, t.second);
            let ms = now_ms.rem_euclid(1000);
            out =
                format!("{pid}:M {day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{ms:03} {mark} ");
            // A client's bytes may be in the message: they must not begin a line of their own.
            out.extend(parts.message.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }));
            for (name, value) in &parts.fields {
                out.push_str(&format!(" {name}={value}"));
            }
        }
        LogFormat::Json => {
            out.push_str(&format!("{{\"time_ms\":{now_ms},\"pid\":{pid},\"level\":\"{word}\",\"message\":"));
            json_string(&parts.message, &mut out);
            for (name, value) in &parts.fields {
                out.push(',');
                json_string(name, &mut out);
                out.push(':');
                json_string(value, &mut out);
            }
            out.push('}');
        }
    }
    out.push('\n');
    out
}

fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes all that is written to it")
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts { message: "a \"b\"\nc".into(), fields: vec![("port", "7".into())] }
    }

    #[test]
    fn a_line_for_people_looks_like_redis_s() {
        let text = line(LogFormat::Human, 42, 1_796_126_400_007, Level::INFO, &parts());
        let (head, tail) = text.split_once(" * ").expect("notice is a star");
        assert!(head.starts_with("42:M ") && head.ends_with(":00.007"), "{head}");
        assert!(head.contains(" Dec 2026 "), "{head}");
        assert_eq!(tail, "a \"b\" c port=7\n");
        for (level, mark) in
            [(Level::TRACE, " . "), (Level::DEBUG, " - "), (Level::WARN, " # "), (Level::ERROR, " # ")]
        {
            assert!(line(LogFormat::Human, 42, 0, level, &parts()).contains(mark));
        }
    }

    #[test]
    fn a_line_for_programs_is_one_json_object() {
        assert_eq!(
            line(LogFormat::Json, 42, 5, Level::WARN, &parts()),
            "{\"time_ms\":5,\"pid\":42,\"level\":\"warning\",\"message\":\"a \\\"b\\\"\\nc\",\"port\":\"7\"}\n"
        );
    }
}
