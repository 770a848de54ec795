//! The engine's side of scripts: what `script::Redis` asks is answered by `Core`, and the host is
//! lent the core for the length of a run. Not here: Lua (`script`).

use super::admit;
use super::cluster::{self, Slots};
use super::core::{Core, Origin, ScriptRun};
use super::spec::{Flags, Outcome, ScriptRequest};
use super::striking::Inside;
use crate::base::clock::UnixMs;
use crate::base::error::{CommandError, code_of};
use crate::base::number;
use crate::resp::{Args, Protocol, Reply, TreeReply};
use crate::script::{Host, LogLevel, Redis, Running, ScriptError, Verdict};

impl Core {
    fn run_state(&mut self) -> &mut ScriptRun {
        self.script.as_mut().expect("set for the length of ScriptHost::run, and only the host asks")
    }

    /// In a cluster, the slot of the keys that a script is called with.
    fn slot_of_script(&self, args: &Args<'_>) -> Option<u16> {
        let command = self.table.find(args.get(0)).filter(|_| self.config.cluster_enabled)?;
        match cluster::slots(command, args) {
            Slots::One(slot) => Some(slot),
            _ => None,
        }
    }

    fn script_is_over_its_time(&mut self) -> bool {
        let threshold = self.config.busy_reply_threshold;
        let run = self.run_state();
        if run.running.timed_out || threshold == 0 || run.turn.since_lap() / 1000 < threshold {
            return run.running.timed_out;
        }
        run.running.timed_out = true;
        let name = run.running.name.clone();
        tracing::warn!(
            "Slow script detected: still in execution after {threshold} milliseconds. You can try killing \
             the script using the {} command. Script name is: {name}.",
            if self.run_state().running.is_function { "FUNCTION KILL" } else { "SCRIPT KILL" },
        );
        true
    }
}

impl Redis for Core {
    fn start(&mut self) -> Result<(), CommandError> {
        let short = self.out_of_memory();
        let running = &self.run_state().running;
        // A script that declares nothing may run; its first write is refused.
        if short && running.has_flags && !running.allow_oom && !running.read_only {
            return Err(CommandError::OutOfMemory);
        }
        Ok(())
    }

    fn call(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        let Ok(command) = self.table.resolve(args) else {
            self.stats.error("ERR");
            return Err(CommandError::fixed("ERR Unknown Redis command called from script"));
        };
        let out_of_memory = command.has(Flags::DENYOOM) && self.out_of_memory();
        let run = self.run_state();
        let client = run.client;
        let short = out_of_memory && !run.running.allow_oom && !run.running.wrote;
        if let Err(refusal) = admit::admit_from_script(command, args.len(), run.running.read_only, short) {
            self.stats.commands[command.id].rejected += 1;
            self.stats.error(&refusal.code());
            return Err(refusal);
        }
        if self.config.cluster_enabled {
            self.check_script_slot(command, args)?;
        }
        let fault =
            if self.is_special() { self.strike_inside(client, command, args) } else { Inside::Unharmed };
        if let Inside::Instead(error) = fault {
            return Err(error);
        }
        if command.has(Flags::WRITE) {
            self.run_state().running.wrote = true;
        }
        let mut unheard = TreeReply::default();
        let reply: &mut dyn Reply = if let Inside::Afterwards(_) = fault { &mut unheard } else { reply };
        let answered = match self.handle(client, command, args, Origin::Script, reply) {
            Ok(Outcome::Done | Outcome::Close) => Ok(()),
            Ok(_) => Err(CommandError::fixed("ERR This Redis command is not allowed from script")),
            Err(error) => Err(error),
        };
        let elapsed = self.turn.since_lap();
        let run = self.run_state();
        let micros = elapsed.saturating_sub(run.mark);
        run.mark = elapsed;
        let failed = answered.as_ref().err().map(|error| (error, false));
        self.finish(client, command, args, Origin::Script, failed, micros);
        if let Inside::Afterwards(error) = fault {
            return Err(error);
        }
        answered
    }

    fn breathe(&mut self) -> Verdict {
        if self.script_is_over_its_time()
            && let Some(mut breather) = self.breather.take()
        {
            let turn = self.turn;
            breather(self);
            self.turn = turn; // for the script, time has stood still
            self.breather = Some(breather);
        }
        if self.shutdown.is_some() || self.run_state().running.kill {
            Verdict::Kill
        } else {
            Verdict::Continue
        }
    }

    fn error_said(&mut self, line: &[u8]) {
        self.stats.error(&code_of(line));
        self.run_state().said_error = true;
    }

    fn running(&mut self) -> &mut Running {
        &mut self.run_state().running
    }

    fn now(&self) -> UnixMs {
        Core::now(self)
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match level {
            LogLevel::Debug => tracing::trace!("{text}"),
            LogLevel::Verbose => tracing::debug!("{text}"),
            LogLevel::Notice => tracing::info!("{text}"),
            LogLevel::Warning => tracing::warn!("{text}"),
        }
    }

    fn acl_check(&mut self, args: &Args<'_>) -> Result<bool, CommandError> {
        let command = self
            .table
            .resolve(args)
            .map_err(|_| CommandError::fixed("ERR Invalid command passed to redis.acl_check_cmd()"))?;
        Ok(command.arity_fits(args.len()))
    }

    fn version(&self) -> &str {
        &self.config.compat_version.text
    }

    fn memory_limit(&self) -> usize {
        self.config.lua_memory_limit as usize
    }

    fn caller_resp3(&self) -> bool {
        self.script.as_ref().is_some_and(|run| self.clients.get(run.client).protocol == Protocol::Resp3)
    }
}

/// The script host, made when it is first asked: a server that runs no script has no VM.
#[derive(Default)]
pub struct ScriptHost {
    host: Option<Host>,
    /// The last run's state, for the memory it holds.
    spare: Running,
}

impl ScriptHost {
    /// Does what a script command asked for.
    pub fn run(
        &mut self,
        core: &mut Core,
        client: usize,
        request: ScriptRequest,
        args: &Args<'_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        if request == ScriptRequest::Reset {
            self.host = None;
            reply.ok();
            return Ok(());
        }
        let db = core.clients.get(client).db;
        let running = std::mem::take(&mut self.spare);
        let slot = core.slot_of_script(args);
        core.script = Some(ScriptRun { running, client, turn: core.turn, mark: 0, slot, said_error: false });
        let answered = self.ask(core, request, args, reply);
        if let Some(run) = core.script.take() {
            if run.said_error
                && answered.is_ok()
                && let Some(command) = core.table.find(args.get(0))
            {
                core.stats.commands[command.id].failed += 1;
            }
            self.spare = run.running;
        }
        core.clients.get_mut(client).db = db; // a script's SELECT is its own
        if let Some(host) = &self.host {
            core.scripts = host.info();
        }
        answered
    }

    fn ask(
        &mut self,
        core: &mut Core,
        request: ScriptRequest,
        args: &Args<'_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        let host = self.host.get_or_insert_with(|| Host::new(&core.config.compat_version.text));
        match request {
            ScriptRequest::Eval { by_sha, read_only, keys } => {
                return host.eval(core, args, by_sha, read_only, keys, reply);
            }
            ScriptRequest::Fcall { read_only } => {
                host.find_function(args.get(1))?;
                let keys = number::parse_i64(args.get(2))
                    .ok_or(CommandError::fixed("ERR Bad number of keys provided"))?;
                if keys > (args.len() - 3) as i64 {
                    return Err(CommandError::TooManyKeys.into());
                }
                let keys = usize::try_from(keys).map_err(|_| CommandError::NegativeKeys)?;
                return host.fcall(core, args, read_only, keys, reply);
            }
            ScriptRequest::Load => host.load(args, reply),
            ScriptRequest::Exists => host.exists(args, reply),
            ScriptRequest::Flush => host.flush(args, reply),
            ScriptRequest::Show => host.show(args, reply),
            ScriptRequest::Function(sub) => {
                let done = host.function(core, sub, args, reply);
                // Libraries are data: what changes them counts, as in Redis.
                let changes = core.table.resolve(args).is_ok_and(|command| command.has(Flags::WRITE));
                core.effects.dirty += u64::from(done.is_ok() && changes);
                done
            }
            ScriptRequest::Reset => Ok(()),
        }
        .map_err(ScriptError::from)
    }
}
