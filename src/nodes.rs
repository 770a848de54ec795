//! Several servers in one process, as Redlock wants them: each on a thread of its own, with its own
//! port, data, clock, seed and faults; every one knows the addresses of all. Not here: one embedded
//! server (`embed`), the process around them (`daemon`).

use crate::base::chance::Chance;
use crate::base::clock::Clock;
use crate::config::Config;
use crate::embed::{Builder, Launch, Server, StartError};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Starts several servers; made by [`Builder::nodes`].
#[derive(Debug)]
pub struct NodesBuilder(Builder);

/// Several servers inside this process. Dropping it stops them all.
#[derive(Debug)]
pub struct Nodes(Vec<Server>);

impl Builder {
    /// `count` independent servers instead of one. A fixed `port` is the first one's, the others
    /// have those behind it; a fixed seed is the first one's too.
    ///
    /// ```
    /// use keylatch::faults::{Action, Rule};
    ///
    /// let nodes = keylatch::Server::builder().frozen_at(1_700_000_000_000).nodes(5).start()?;
    /// assert_eq!(nodes.urls().len(), 5);
    /// // Two of them are out of reach, and the clock of a third has jumped.
    /// nodes[0].faults().add(Rule::new(Action::Drop))?;
    /// nodes[1].faults().add(Rule::new(Action::Drop))?;
    /// nodes[2].clock().advance(60_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn nodes(self, count: usize) -> NodesBuilder {
        NodesBuilder(self.param("nodes", count))
    }

    /// As many servers as the parameter `nodes` says.
    pub(crate) fn into_nodes(self) -> NodesBuilder {
        NodesBuilder(self)
    }
}

impl NodesBuilder {
    /// Starts them all. They accept when this returns.
    pub fn start(self) -> Result<Nodes, StartError> {
        let (config, clock, seed) = self.0.into_parts()?;
        Nodes::start(&config, |node| {
            let chance =
                seed.map_or_else(Chance::from_system, |seed| Chance::from_seed(seed.wrapping_add(node)));
            (clock, chance)
        })
    }
}

impl Nodes {
    /// Starts as many as `config` says, each with the clock and the chance that `means` gives it.
    pub(crate) fn start(
        config: &Config,
        means: impl Fn(u64) -> (Clock, Chance),
    ) -> Result<Nodes, StartError> {
        let launches = (0..config.nodes)
            .map(|node| {
                let (clock, chance) = means(u64::from(node));
                Launch::prepare(of_node(config, node)?, clock, chance)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let all: Arc<[String]> = launches.iter().map(|launch| launch.addr().to_string()).collect();
        launches.into_iter().map(|launch| launch.go(Arc::clone(&all))).collect::<Result<_, _>>().map(Nodes)
    }

    /// Their addresses as URLs, for client libraries.
    pub fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    /// The servers one by one, to stop some before the others.
    pub fn into_servers(self) -> Vec<Server> {
        self.0
    }
}

impl Deref for Nodes {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}

/// What node number `node`, from 0 on, does otherwise than the first one.
fn of_node(config: &Config, node: u16) -> Result<Config, StartError> {
    let mut config = config.clone();
    if node == 0 {
        return Ok(config);
    }
    if config.port != 0 {
        config.port = config.port.checked_add(node).ok_or_else(|| {
            StartError::Config(format!("nodes: there are no {} ports from {} on", config.nodes, config.port))
        })?;
    }
    config.unixsocket = numbered(&config.unixsocket, node);
    config.lock_report = numbered(&config.lock_report, node);
    Ok(config)
}

/// `locks.html` is `locks-2.html` for the second node.
fn numbered(path: &Path, node: u16) -> PathBuf {
    let Some(stem) = path.file_stem() else { return PathBuf::new() };
    let mut name = stem.to_owned();
    name.push(format!("-{}", u32::from(node) + 1));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_files_of_its_own() {
        assert_eq!(numbered(Path::new("/tmp/locks.html"), 1), Path::new("/tmp/locks-2.html"));
        assert_eq!(numbered(Path::new("sock"), 4), Path::new("sock-5"));
        assert_eq!(numbered(Path::new(""), 1), Path::new(""));
    }

    #[test]
    fn they_are_independent_and_know_each_other() {
        let nodes = Server::builder().frozen_at(1_000).seed(7).nodes(3).start().expect("three servers");
        nodes[1].set("k", "v", Some(50));
        nodes[1].clock().advance(10);
        assert_eq!(nodes[0].get("k"), None);
        assert_eq!((nodes[0].clock().now(), nodes[1].clock().now()), (1_000, 1_010));
        let told = nodes[2].with(|engine| crate::engine::Door::core(engine).identity.nodes.clone());
        let addresses: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
        assert_eq!(told[..], addresses[..]);
        let mut servers = nodes.into_servers();
        drop(servers.remove(0));
        assert_eq!(servers[0].get("k").as_deref(), Some(&b"v"[..]));
    }

    #[test]
    fn a_row_of_ports_must_be_there() {
        let refused = Server::builder().port(65_535).nodes(2).start();
        assert!(matches!(refused, Err(StartError::Config(_))), "{refused:?}");
        assert!(matches!(Server::builder().param("nodes", 2).start(), Err(StartError::Config(_))));
        assert!(matches!(Server::builder().nodes(0).start(), Err(StartError::Config(_))));
    }
}
