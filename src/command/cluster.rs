//! CLUSTER, READONLY, READWRITE, ASKING: with cluster-enabled yes, a cluster of one node that owns
//! every slot. Not here: which slot a key has, and requests that cross slots (`engine::cluster`).

use super::help;
use crate::base::error::CommandError;
use crate::engine::cluster::{self, SLOTS};
use crate::engine::core::Core;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const SUB: Spec = Spec {
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::STALE,
    ..Spec::NONE
};
const ANY: &[&str] = &["nondeterministic_output"];
const NODES: &str = "O(N) where N is the total number of Cluster nodes";

/// What would change the cluster: refused, since a cluster of one node has nothing to change.
const FIXED: Spec = Spec {
    flags: Flags::ADMIN.or(Flags::STALE).or(Flags::NO_ASYNC_LOADING),
    handler: Handler::Server(|ctx, _, _| {
        enabled(ctx.core)?;
        Err(CommandError::fixed("ERR keylatch is a cluster of one node that owns all slots: that stays so"))
    }),
    ..SUB
};

/// What asks about another node, of which there is none.
const OTHER: Spec = Spec {
    synopsis: "node-id",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::STALE),
    tips: ANY,
    handler: Handler::Server(of_a_node),
    ..SUB
};

const SESSION: Spec = Spec {
    group: Group::Cluster,
    since: "3.0.0",
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: &["connection"],
    ..Spec::NONE
};

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "asking",
        flags: Flags::FAST,
        summary: "Would let the next command reach a slot that is on its way here.",
        handler: Handler::Server(|ctx, _, reply| {
            enabled(ctx.core)?;
            reply.ok();
            Ok(Outcome::Done)
        }),
        ..SESSION
    },
    Spec {
        name: "readonly",
        summary: "Would let this connection read from a replica.",
        handler: Handler::Server(|ctx, _, reply| read_only(ctx, reply, true)),
        ..SESSION
    },
    Spec {
        name: "readwrite",
        summary: "Ends what READONLY began.",
        handler: Handler::Server(|ctx, _, reply| read_only(ctx, reply, false)),
        ..SESSION
    },
    Spec {
        name: "cluster",
        group: Group::Cluster,
        since: "3.0.0",
        complexity: "Depends on subcommand.",
        summary: "Holds the commands about the cluster.",
        arity: Arity::AtLeast(2),
        subcommands: SUBCOMMANDS,
        ..Spec::NONE
    },
];

const SUBCOMMANDS: &[Spec] = &[
    Spec {
        name: "addslots",
        synopsis: "slot [slot ...]",
        complexity: "O(N) where N is the total number of hash slot arguments",
        summary: "Would take slots.",
        arity: Arity::AtLeast(3),
        ..FIXED
    },
    Spec {
        name: "addslotsrange",
        since: "7.0.0",
        synopsis: "start-slot end-slot [start-slot end-slot ...]",
        complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
        summary: "Would take ranges of slots.",
        arity: Arity::AtLeast(4),
        ..FIXED
    },
    Spec { name: "bumpepoch", summary: "Would begin a new epoch.", tips: ANY, ..FIXED },
    Spec {
        name: "count-failure-reports",
        complexity: "O(N) where N is the number of failure reports",
        summary: "Counts who takes a node for failed.",
        ..OTHER
    },
    Spec {
        name: "countkeysinslot",
        synopsis: "slot",
        complexity: "O(N) where N is the number of keys: slots are not indexed",
        summary: "Counts the keys of a slot.",
        arity: Arity::Exactly(3),
        handler: Handler::Server(countkeysinslot),
        ..SUB
    },
    Spec {
        name: "delslots",
        synopsis: "slot [slot ...]",
        complexity: "O(N) where N is the total number of hash slot arguments",
        summary: "Would give slots up.",
        arity: Arity::AtLeast(3),
        ..FIXED
    },
    Spec {
        name: "delslotsrange",
        since: "7.0.0",
        synopsis: "start-slot end-slot [start-slot end-slot ...]",
        complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
        summary: "Would give ranges of slots up.",
        arity: Arity::AtLeast(4),
        ..FIXED
    },
    Spec {
        name: "failover",
        synopsis: "[FORCE | TAKEOVER]",
        summary: "Would have a replica take over.",
        arity: Arity::AtLeast(2),
        ..FIXED
    },
    Spec { name: "flushslots", summary: "Would give all slots up.", ..FIXED },
    Spec {
        name: "forget",
        synopsis: "node-id",
        summary: "Would forget a node.",
        arity: Arity::Exactly(3),
        ..FIXED
    },
    Spec {
        name: "getkeysinslot",
        synopsis: "slot count",
        complexity: "O(N) where N is the number of keys: slots are not indexed",
        summary: "Gives some keys of a slot.",
        arity: Arity::Exactly(4),
        tips: ANY,
        handler: Handler::Server(getkeysinslot),
        ..SUB
    },
    Spec {
        name: "info",
        summary: "Tells the state of the cluster.",
        tips: ANY,
        handler: Handler::Server(info),
        ..SUB
    },
    Spec {
        name: "keyslot",
        synopsis: "key",
        complexity: "O(N) where N is the number of bytes in the key",
        summary: "Tells a key's slot.",
        arity: Arity::Exactly(3),
        handler: Handler::Server(|ctx, args, reply| {
            enabled(ctx.core)?;
            reply.integer(cluster::slot(args.get(2)).into());
            Ok(Outcome::Done)
        }),
        ..SUB
    },
    Spec {
        name: "links",
        since: "7.0.0",
        complexity: NODES,
        summary: "Lists the connections to other nodes: none.",
        tips: ANY,
        handler: Handler::Server(|ctx, _, reply| {
            enabled(ctx.core)?;
            reply.array(0);
            Ok(Outcome::Done)
        }),
        ..SUB
    },
    Spec {
        name: "meet",
        synopsis: "ip port [cluster-bus-port]",
        summary: "Would join another node.",
        arity: Arity::AtLeast(4),
        ..FIXED
    },
    Spec {
        name: "myid",
        summary: "Tells this node's name.",
        handler: Handler::Server(|ctx, _, reply| {
            enabled(ctx.core)?;
            reply.text(node_id(ctx.core));
            Ok(Outcome::Done)
        }),
        ..SUB
    },
    Spec {
        name: "myshardid",
        since: "7.2.0",
        summary: "Tells this shard's name.",
        handler: Handler::Server(|ctx, _, reply| {
            enabled(ctx.core)?;
            reply.text(&ctx.core.identity.replication_id);
            Ok(Outcome::Done)
        }),
        ..SUB
    },
    Spec {
        name: "nodes",
        complexity: NODES,
        summary: "Lists the nodes, one a line.",
        tips: ANY,
        handler: Handler::Server(nodes),
        ..SUB
    },
    Spec { name: "replicas", since: "5.0.0", summary: "Lists a node's replicas.", ..OTHER },
    Spec {
        name: "replicate",
        synopsis: "node-id",
        summary: "Would make a replica of this node.",
        arity: Arity::Exactly(3),
        ..FIXED
    },
    Spec {
        name: "reset",
        synopsis: "[HARD | SOFT]",
        complexity: "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
        summary: "Would leave the cluster.",
        arity: Arity::AtLeast(2),
        flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
        ..FIXED
    },
    Spec { name: "saveconfig", summary: "Would write the cluster's state to disk.", ..FIXED },
    Spec {
        name: "set-config-epoch",
        synopsis: "config-epoch",
        summary: "Would set the epoch.",
        arity: Arity::Exactly(3),
        ..FIXED
    },
    Spec {
        name: "setslot",
        synopsis: "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
        summary: "Would move a slot.",
        arity: Arity::AtLeast(4),
        ..FIXED
    },
    Spec {
        name: "shards",
        since: "7.0.0",
        complexity: "O(N) where N is the total number of cluster nodes",
        summary: "Tells which nodes serve which slots.",
        tips: ANY,
        handler: Handler::Server(shards),
        ..SUB
    },
    Spec {
        name: "slaves",
        summary: "The older name of CLUSTER REPLICAS.",
        deprecated: ("5.0.0", "`CLUSTER REPLICAS`"),
        ..OTHER
    },
    Spec {
        name: "slots",
        complexity: NODES,
        summary: "Tells which nodes serve which slots, the older way.",
        deprecated: ("7.0.0", "`CLUSTER SHARDS`"),
        tips: ANY,
        handler: Handler::Server(slots),
        ..SUB
    },
    Spec {
        handler: Handler::Server(|ctx, args, reply| {
            enabled(ctx.core)?;
            help::help(ctx, args, reply)
        }),
        ..help::entry(Group::Cluster, "5.0.0")
    },
];

fn enabled(core: &Core) -> Result<(), CommandError> {
    if core.config.cluster_enabled {
        return Ok(());
    }
    Err(CommandError::fixed("ERR This instance has cluster support disabled"))
}

/// The run's id serves as the node's name: 40 hex digits, another at each start.
fn node_id(core: &Core) -> &str {
    &core.identity.run_id
}

/// Where this node is to be found, as the client is told: what cluster-announce-ip and -port say,
/// else the address by which a client on loopback has come. To others the address is empty, which
/// says "where you asked"; a node of Redis's says so to all until another has told it its own, but
/// ioredis goes nowhere then.
struct Endpoint {
    ip: String,
    port: u16,
}

impl Endpoint {
    fn of(ctx: &Context<'_>) -> Endpoint {
        let (core, config) = (&*ctx.core, &ctx.core.config);
        let port = match config.cluster_announce_port {
            0 => core.identity.port,
            announced => announced,
        };
        let ip = match config.cluster_announce_ip.is_empty() {
            false => String::from_utf8_lossy(&config.cluster_announce_ip).into_owned(),
            true => loopback(&core.clients.get(ctx.client).laddr).unwrap_or_default(),
        };
        Endpoint { ip, port }
    }
}

/// The host of `address` (`host:port`) if it is a loopback address.
fn loopback(address: &str) -> Option<String> {
    let (host, _) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip: std::net::IpAddr = host.parse().ok()?;
    ip.is_loopback().then(|| host.to_owned())
}

fn read_only(ctx: &mut Context<'_>, reply: &mut dyn Reply, on: bool) -> Answer {
    enabled(ctx.core)?;
    ctx.core.clients.get_mut(ctx.client).read_only = on;
    reply.ok();
    Ok(Outcome::Done)
}

fn info(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    let mut text =
        format!("cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n");
    for (name, value) in [
        ("slots_pfail", 0),
        ("slots_fail", 0),
        ("known_nodes", 1),
        ("size", 1),
        ("current_epoch", 0),
        ("my_epoch", 0),
        ("stats_messages_sent", 0),
        ("stats_messages_received", 0),
    ] {
        text.push_str(&format!("cluster_{name}:{value}\r\n"));
    }
    text.push_str("total_cluster_links_buffer_limit_exceeded:0\r\n");
    reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

fn nodes(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    let Endpoint { ip, port } = Endpoint::of(ctx);
    // The port after the `@` is where nodes would talk to each other.
    let line = format!(
        "{} {ip}:{port}@{} myself,master - 0 0 0 connected 0-{}\n",
        node_id(ctx.core),
        u32::from(ctx.core.identity.port) + 10_000,
        SLOTS - 1
    );
    reply.verbatim(b"txt", line.as_bytes());
    Ok(Outcome::Done)
}

fn slots(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.array(4);
    let Endpoint { ip, port } = Endpoint::of(ctx);
    reply.text(&ip);
    reply.integer(port.into());
    reply.text(node_id(ctx.core));
    // What else there is to know of the node, a host name for one: nothing.
    reply.map(0);
    Ok(Outcome::Done)
}

fn shards(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    reply.array(1);
    reply.map(2);
    reply.text("slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.text("nodes");
    reply.array(1);
    reply.map(7);
    let Endpoint { ip, port } = Endpoint::of(ctx);
    reply.text("id");
    reply.text(node_id(ctx.core));
    reply.text("port");
    reply.integer(port.into());
    reply.text("ip");
    reply.text(&ip);
    reply.text("endpoint");
    reply.text(&ip);
    reply.text("role");
    reply.text("master");
    reply.text("replication-offset");
    reply.integer(0);
    reply.text("health");
    reply.text("online");
    Ok(Outcome::Done)
}

fn of_a_node(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    let id = args.get(2);
    if id != node_id(ctx.core).as_bytes() {
        return Err(CommandError::Bytes([&b"ERR Unknown node "[..], id].concat()));
    }
    if args.is(1, "count-failure-reports") {
        reply.integer(0)
    } else {
        reply.array(0)
    }
    Ok(Outcome::Done)
}

/// The keys of `slot`, at most `most`.
fn keys_of(core: &Core, slot: u16, most: usize) -> Vec<Vec<u8>> {
    let db = core.keyspace.db(0);
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = db.scan(cursor, 1024, |at| {
            if keys.len() < most && cluster::slot(db.key(at)) == slot {
                keys.push(db.key(at).to_vec());
            }
        });
        if cursor == 0 || keys.len() == most {
            return keys;
        }
    }
}

fn countkeysinslot(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    let slot = u16::try_from(args.int(2)?).ok().filter(|&slot| slot < SLOTS);
    let slot = slot.ok_or(CommandError::fixed("ERR Invalid slot"))?;
    reply.integer(keys_of(ctx.core, slot, usize::MAX).len() as i64);
    Ok(Outcome::Done)
}

fn getkeysinslot(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    enabled(ctx.core)?;
    let (slot, most) = (args.int(2)?, args.int(3)?);
    let slot = u16::try_from(slot).ok().filter(|&slot| slot < SLOTS);
    let (Some(slot), Ok(most)) = (slot, usize::try_from(most)) else {
        return Err(CommandError::fixed("ERR Invalid slot or number of keys"));
    };
    let keys = keys_of(ctx.core, slot, most);
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(Outcome::Done)
}
