//! `docs/configuration.md`, written from the table. Only for its test: nobody edits that file.

use std::fmt::Write;

use super::params::{Change, Param, Store, all};

/// The page's text.
fn page() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         <!-- Written by a test from the table in src/config/params.rs; UPDATE_DOCS=1 rewrites it. -->\n\n\
         `keylatch [file.conf] [--directive value ...] [-]`: the file has redis.conf's syntax, `-` reads one from\n\
         the standard input, and what the command line says wins. `CONFIG GET` and `CONFIG SET` know the same\n\
         names. An unknown directive or a bad value stops the start with a line that names file, line and\n\
         directive. `include` takes a path or a glob.\n\n\
         Change: *yes* by CONFIG SET; *protected* the same, where `enable-protected-configs` allows; *no* only by\n\
         file and command line. Parameters marked *Ours* are not in Redis.\n\n\
         | directive | value | default | change | meaning |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    let effective = |param: &&Param| matches!(param.store, Store::Field { .. });
    for param in all().filter(effective) {
        row(&mut text, param);
    }
    text.push_str(
        "\n## Accepted without effect\n\n\
         So that a stock redis.conf starts. Each is a detail of something that keylatch does by itself or does not\n\
         have; where the difference would matter (`save 900 1`, `appendonly yes`, `replicaof`, `tls-port`, another\n\
         `maxmemory-policy`), the start fails and says so.\n\n\
         | directive | value | default | change | why |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for param in all().filter(|param| !effective(param)) {
        row(&mut text, param);
    }
    text
}

fn row(text: &mut String, param: &Param) {
    let names = param.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let default = if param.default.is_empty() { "\"\"" } else { param.default };
    let change = match param.change {
        Change::Mutable => "yes",
        Change::Fixed => "no",
        Change::Protected => "protected",
    };
    let doc = param.doc.strip_prefix("No effect: ").unwrap_or(param.doc);
    let doc = if let Some(own) = doc.strip_prefix("Ours: ") { format!("*Ours.* {own}") } else { doc.into() };
    writeln!(text, "| {names} | {} | `{default}` | {change} | {doc} |", param.kind.describe())
        .expect("a String takes all that is written to it");
}

mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("docs can be made");
            std::fs::write(path, page()).expect("it can be written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "docs/configuration.md is stale: run the tests once with UPDATE_DOCS=1");
    }

    #[test]
    fn names_are_unique_and_lines_are_sentences() {
        let mut names: Vec<_> = all().flat_map(Param::names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name stands twice");
        for param in all() {
            assert!(param.names().all(|name| name == name.to_ascii_lowercase()), "{}", param.name);
            assert!(param.doc.ends_with('.') && !param.doc.contains('\n'), "{}", param.name);
            let idle = matches!(param.store, Store::Idle);
            assert_eq!(idle, param.doc.starts_with("No effect: "), "{}", param.name);
        }
    }

    /// Each default is what the table says, and what is printed is read back as the same.
    #[test]
    fn defaults_are_sound_and_values_round_trip() {
        for param in all() {
            let mut config = Config::default();
            param.read_value(&mut config, param.default.as_bytes()).expect(param.name);
            let printed = param.print(&config);
            assert_eq!(printed, param.print(&Config::default()), "{}", param.name);
            param.read_value(&mut config, &printed).expect(param.name);
            assert_eq!(param.print(&config), printed, "{}", param.name);
        }
    }
}
