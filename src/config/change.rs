//! CONFIG GET and CONFIG SET on a `Config`: which parameters match, and all-or-nothing changes
//! with Redis's texts. Not here: the commands (`command::config`) and what follows from a change.

use super::params::{Change, Config, Hooks, Param, all, find};
use crate::base::error::CommandError;
use crate::base::glob;

/// A change that has been made.
#[derive(Debug)]
pub struct Applied {
    /// What the server must do now.
    pub hooks: Hooks,
    /// The name of a parameter for each hook that is in, as it was given.
    pub names: Vec<(Hooks, &'static str)>,
    /// What it was before, to go back to where doing it fails.
    pub before: Box<Config>,
}

impl Applied {
    /// The name by which a parameter with this hook was set, for the error.
    pub fn name_for(&self, hook: Hooks) -> &'static str {
        self.names.iter().find(|(hooks, _)| hooks.has(hook)).map_or("", |(_, name)| name)
    }
}

impl Config {
    /// CONFIG SET's error for `name`.
    pub fn set_failed(name: &str, reason: &str) -> CommandError {
        let line = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
        CommandError::Bytes(line.into_bytes())
    }

    /// The parameters whose names match any of `patterns`, with their values. A name without a
    /// glob's characters comes back as it was typed.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], param: &Param| {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                found.push((name.to_vec(), param.print(self)));
            }
        };
        for &pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let Some(param) = find(pattern) {
                    add(pattern, param);
                }
                continue;
            }
            for param in all() {
                for name in param.names().filter(|name| glob::matches(pattern, name.as_bytes(), true)) {
                    add(name.as_bytes(), param);
                }
            }
        }
        found
    }

    /// What must be done where `self` takes the place of `other`.
    pub fn differs_from(&self, other: &Config) -> Hooks {
        let changed = super::all().filter(|param| param.print(self) != param.print(other));
        changed.fold(Hooks::NONE, |hooks, param| hooks.or(param.hooks))
    }

    /// Sets a parameter before the start, fixed ones too. `Err`: the reason, with the name.
    pub fn preset(&mut self, name: &str, value: &str) -> Result<(), String> {
        let param = find(name.as_bytes()).ok_or_else(|| format!("there is no parameter '{name}'"))?;
        param.read_value(self, value.as_bytes()).map_err(|why| format!("'{name}': {why}"))
    }

    /// Changes all of `pairs`, or none. `trusted`: the caller may change protected parameters.
    pub fn set(&mut self, pairs: &[(&[u8], &[u8])], trusted: bool) -> Result<Applied, CommandError> {
        let mut known: Vec<(&'static Param, &'static str, &[u8])> = Vec::with_capacity(pairs.len());
        for &(given, value) in pairs {
            let Some(param) = find(given) else {
                let mut line = b"ERR Unknown option or number of arguments for CONFIG SET - '".to_vec();
                line.extend_from_slice(given);
                line.push(b'\'');
                return Err(CommandError::Bytes(line));
            };
            let own = |name: &&str| given.eq_ignore_ascii_case(name.as_bytes());
            let name = param.names().find(own).unwrap_or(param.name);
            match param.change {
                Change::Fixed => return Err(Self::set_failed(name, "can't set immutable config")),
                Change::Protected if !trusted => {
                    return Err(Self::set_failed(name, "can't set protected config"));
                }
                _ => {}
            }
            if known.iter().any(|(_, other, _)| *other == name) {
                return Err(Self::set_failed(name, "duplicate parameter"));
            }
            known.push((param, name, value));
        }
        let mut next = self.clone();
        let (mut hooks, mut names) = (Hooks::NONE, Vec::new());
        for (param, name, value) in known {
            let before = param.print(&next);
            param.read_value(&mut next, value).map_err(|why| Self::set_failed(name, &why))?;
            // Classes of notifications are printed as Redis prints them: `n` is lost behind `A`.
            let may_differ = param.print(&next) != before || param.hooks.has(Hooks::NOTIFY);
            if param.hooks != Hooks::NONE && may_differ {
                hooks = hooks.or(param.hooks);
                names.push((param.hooks, name));
            }
        }
        let before = Box::new(std::mem::replace(self, next));
        Ok(Applied { hooks, names, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &mut Config, pairs: &[&str]) -> String {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.chunks_exact(2).map(|p| (p[0].as_bytes(), p[1].as_bytes())).collect();
        match config.set(&pairs, false) {
            Ok(_) => "OK".into(),
            Err(error) => String::from_utf8_lossy(&error.line()).into_owned(),
        }
    }

    fn get(config: &Config, name: &str) -> String {
        let found = config.get(&[name.as_bytes()]);
        let show = |(n, v): &(Vec<u8>, Vec<u8>)| {
            format!("{}={}", String::from_utf8_lossy(n), String::from_utf8_lossy(v))
        };
        found.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    /// What redis-server 7.0.15 answered to the same CONFIG SET, and to CONFIG GET after it.
    #[test]
    fn one_parameter_is_set_or_refused_as_redis_does_it() {
        let between = |min: &str, max: &str| format!("argument must be between {min} and {max} inclusive");
        let no_integer = "argument couldn't be parsed into an integer";
        let no_memory = "argument must be a memory value";
        let long_max = "9223372036854775807";
        let megabyte_up = between("1048576", long_max);
        let limits = "normal 1048576 2097152 60 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        // Parameter, value, "" or the refusal, the value after.
        let cases: &[(&str, &str, &str, &str)] = &[
            ("hz", "0", "", "1"),
            ("hz", "501", "", "500"),
            ("HZ", "7", "", "7"),
            ("hz", "-1", &between("0", "2147483647"), "7"),
            ("hz", "+5", no_integer, "7"),
            ("hz", " 5", no_integer, "7"),
            ("hz", "", no_integer, "7"),
            ("protected-mode", "NO", "", "no"),
            ("protected-mode", "1", "argument must be 'yes' or 'no'", "no"),
            ("loglevel", "DEBUG", "", "debug"),
            (
                "loglevel",
                "nothing",
                "argument(s) must be one of the following: debug, verbose, notice, warning",
                "debug",
            ),
            ("maxmemory", "1kb", "", "1024"),
            ("maxmemory", "1k", "", "1000"),
            ("maxmemory", "1Mb", "", "1048576"),
            ("maxmemory", "1b", "", "1"),
            ("maxmemory", "1tb", no_memory, "1"),
            ("maxmemory", "1.5mb", no_memory, "1"),
            ("maxmemory", "-1", no_memory, "1"),
            ("maxmemory", "10%", no_memory, "1"),
            ("maxmemory", "18446744073709551616", "", "18446744073709551615"),
            ("maxmemory", "", "", "0"),
            ("maxmemory-policy", "noeviction", "", "noeviction"),
            ("proto-max-bulk-len", "1048575", &megabyte_up, "536870912"),
            ("proto-max-bulk-len", "9223372036854775808", &megabyte_up, "536870912"),
            ("client-query-buffer-limit", "1mb", "", "1048576"),
            ("client-output-buffer-limit", "normal 1mb 2mb 60", "", limits),
            (
                "client-output-buffer-limit",
                "normal 1 2",
                "Wrong number of arguments in buffer limit configuration.",
                limits,
            ),
            (
                "client-output-buffer-limit",
                "foo 1 2 3",
                "Invalid client class specified in buffer limit configuration.",
                limits,
            ),
            (
                "client-output-buffer-limit",
                "normal 1 2 x",
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
                limits,
            ),
            ("client-output-buffer-limit", "", "", limits),
            ("notify-keyspace-events", "KEA", "", "AKE"),
            ("notify-keyspace-events", "Kg$", "", "g$K"),
            ("notify-keyspace-events", "mn", "", "nm"),
            ("notify-keyspace-events", "Ed", "", "dE"),
            ("notify-keyspace-events", "g$lshzxetd", "", "A"),
            ("notify-keyspace-events", "KEg$lshzxetdmn", "", "AKEm"),
            ("unixsocketperm", "777", "can't set immutable config", "0"),
            ("dbfilename", "x", "can't set protected config", "dump.rdb"),
            ("save", "900", "Invalid save parameters", ""),
            ("save", "", "", ""),
            ("appendonly", "maybe", "argument must be 'yes' or 'no'", "no"),
            ("maxclients", "0", &between("1", "4294967295"), "10000"),
            ("active-expire-effort", "11", &between("1", "10"), "1"),
            ("slowlog-log-slower-than", "-1", "", "-1"),
            ("slowlog-max-len", "-1", &between("0", long_max), "128"),
            ("lua-time-limit", "7", "", "7"),
            ("busy-reply-threshold", "-1", &between("0", long_max), "7"),
            ("bind", "127.0.0.1 -::1", "", "127.0.0.1 -::1"),
            ("bind", "", "", ""),
            (
                "latency-tracking-info-percentiles",
                "50 x",
                "Invalid latency-tracking-info-percentiles parameters",
                "50 99 99.9",
            ),
            (
                "latency-tracking-info-percentiles",
                "50 101",
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
                "50 99 99.9",
            ),
            ("latency-tracking-info-percentiles", "50.55555 99.99999", "", "50.55555 99.99999"),
            ("latency-tracking-info-percentiles", "", "", ""),
        ];
        let mut config = Config::default();
        for (name, value, refusal, after) in cases {
            let expected = if refusal.is_empty() {
                "OK".to_string()
            } else {
                let name = name.to_ascii_lowercase();
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {refusal}")
            };
            assert_eq!(set(&mut config, &[name, value]), expected, "{name} {value:?}");
            assert_eq!(get(&config, name), format!("{name}={after}"), "{name} {value:?}");
        }
    }

    #[test]
    fn several_are_set_all_or_none() {
        let mut config = Config::default();
        assert_eq!(set(&mut config, &["hz", "12", "maxclients", "5"]), "OK");
        assert_eq!((config.hz, config.maxclients), (12, 5));
        let failed = |name: &str, why: &str| {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        };
        for (pairs, refusal) in [
            (
                vec!["hz", "10", "maxclients", "x"],
                failed("maxclients", "argument couldn't be parsed into an integer"),
            ),
            (vec!["hz", "x", "daemonize", "no"], failed("daemonize", "can't set immutable config")),
            (vec!["hz", "x", "HZ", "y"], failed("hz", "duplicate parameter")),
            (
                vec!["hz", "1", "foo", "2"],
                "ERR Unknown option or number of arguments for CONFIG SET - 'foo'".into(),
            ),
        ] {
            assert_eq!(set(&mut config, &pairs), refusal);
            assert_eq!(config.hz, 12);
        }
        assert_eq!(set(&mut config, &["lua-time-limit", "5", "busy-reply-threshold", "6"]), "OK");
        assert_eq!(get(&config, "lua-time-limit"), "lua-time-limit=6");
    }

    #[test]
    fn only_what_changed_is_to_be_put_into_effect() {
        let mut config = Config::default();
        let applied = config.set(&[(b"hz", b"10"), (b"loglevel", b"debug")], false).expect("both are sound");
        assert_eq!(applied.hooks, Hooks::LOG_LEVEL);
        assert_eq!(applied.name_for(Hooks::LOG_LEVEL), "loglevel");
        assert_eq!(applied.before.loglevel, crate::config::LogLevel::Notice);
    }

    #[test]
    fn persistence_is_refused_with_a_reason() {
        let mut config = Config::default();
        assert!(set(&mut config, &["save", "900 1"]).contains("memory only"));
        assert!(set(&mut config, &["appendonly", "yes"]).contains("memory only"));
        assert!(set(&mut config, &["maxmemory-policy", "allkeys-lru"]).contains("evicts nothing"));
        assert!(
            set(&mut config, &["maxmemory-policy", "x"])
                .contains("must be one of the following: volatile-lru")
        );
    }
}
