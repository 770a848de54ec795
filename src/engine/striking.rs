//! Faults at work: what a rule that strikes does to a request, to its reply and to the whole server,
//! and how that ends. All waits end by the server's clock. Not here: the rules (`faults`), how they
//! are written (`command::fault`), and the other waits (`blocking`).
//!
//! A request goes wrong at two places: once it is admitted and before its command runs
//! (`strike_before`), and when its reply is whole (`strike_after`). What waits before its command
//! stays in the connection's buffer and is made again; a reply that waits is held here, and what is
//! sent to its client meanwhile queues up behind it. Single commands of a transaction or a script
//! are struck inside (`strike_inside`). There the moment stands still and nobody else is served, so a
//! stall inside cannot be told from one right behind the last of them: that is where it is put.

use super::blocking::Wait;
use super::core::{Core, Taken};
use super::faults::{Action, Faults, Nonsense, Phase, Rule, Target};
use super::keys;
use super::session::Closing;
use super::spec::Flags;
use super::table::Command;
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::resp::{Args, Reply};

/// Between two pieces of a reply that is split, milliseconds.
const PIECE_EVERY: i64 = 1;

/// The rules in force, and what has come of them that is not over.
#[derive(Debug, Default)]
pub struct Trouble {
    rules: Faults,
    /// Until then nothing is served but KEYLATCH.
    stall: Option<UnixMs>,
    /// Who waits for the end of that, as they came.
    stalled: Vec<usize>,
    /// How many requests are marked as spared.
    spared: usize,
    /// Stalls within a transaction or script that is under way, milliseconds.
    owed_stall: u64,
}

impl Trouble {
    /// Whether there is none, and none to come.
    pub fn is_none(&self) -> bool {
        self.rules.is_empty() && self.stall.is_none() && self.spared == 0 && self.owed_stall == 0
    }

    /// The rules in force.
    pub fn rules(&self) -> &Faults {
        &self.rules
    }

    /// Until when the whole server stands still.
    pub fn stall(&self) -> Option<UnixMs> {
        self.stall
    }
}

/// What faults have made of a client's request.
#[derive(Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its time before the command is over: made again, it is not struck there once more.
    Spared,
    /// Its command, by number, runs; these are its keys.
    Runs { command: usize, keys: Vec<Box<[u8]>> },
    /// This is held back for the client.
    Held(Vec<u8>),
    /// The client hears nothing any more.
    Hung,
}

impl Mark {
    /// Takes over what is sent to the client beside its replies; tells whether it has.
    pub fn takes(&mut self, bytes: &[u8]) -> bool {
        if let Mark::Held(held) = self {
            held.extend_from_slice(bytes);
        }
        matches!(self, Mark::Held(_) | Mark::Hung)
    }
}

/// What becomes of a single command of a transaction or a script.
pub enum Inside {
    Unharmed,
    /// It does not run; this is its answer.
    Instead(CommandError),
    /// It runs, and this is its answer.
    Afterwards(CommandError),
}

/// The rules.
impl Core {
    /// Puts a rule behind the others; returns its id.
    pub fn add_fault(&mut self, rule: Rule) -> Result<u64, Nonsense> {
        rule.check()?;
        let id = self.trouble.rules.add(rule);
        self.note_special();
        Ok(id)
    }

    /// Takes a rule out; tells whether it was there. What it has brought about goes on.
    pub fn remove_fault(&mut self, id: u64) -> bool {
        let was_there = self.trouble.rules.remove(id);
        self.forget_runs();
        self.note_special();
        was_there
    }

    /// Takes all rules out and ends the waits that they brought about: what was held back goes out,
    /// what was to be made again is. Tells how many rules there were.
    pub fn clear_faults(&mut self) -> usize {
        let rules = self.trouble.rules.clear();
        self.forget_runs();
        self.end_stall();
        for client in self.clients.by_age() {
            if matches!(self.clients.get(client).wait, Some(Wait::Delay { .. } | Wait::Split { .. })) {
                self.end_fault(client);
            }
        }
        self.note_special();
        rules
    }

    /// Where no rule is left, nothing that runs will be held against one.
    fn forget_runs(&mut self) {
        if self.trouble.rules.is_empty() {
            self.clients.by_age().into_iter().for_each(|client| self.leave_unharmed(client));
        }
    }

    /// As at the start. Who was left hanging is answered again from here on; what it was not told is
    /// lost.
    pub(super) fn reset_faults(&mut self) {
        self.clear_faults();
        for client in self.clients.by_age() {
            if matches!(self.clients.get(client).wait, Some(Wait::Hang)) {
                self.end_fault(client);
            }
        }
        self.trouble.rules = Faults::default();
    }

    fn strike(
        &mut self,
        phase: Phase,
        client: usize,
        command: &Command,
        keys: &[Box<[u8]>],
        inside: bool,
    ) -> Option<Rule> {
        if self.trouble.rules.is_empty() {
            return None;
        }
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let name = &self.clients.get(client).name;
        let target = Target { phase, command: &command.full_name, keys: &keys, client: name, inside };
        self.trouble.rules.strike(&target, &mut self.chance)
    }

    /// The keys of a request, EXEC's being those of all that it runs.
    fn keys_of(&self, client: usize, command: &Command, args: &Args<'_>) -> Vec<Box<[u8]>> {
        let named = |command: &Command, args: &Args<'_>| {
            let keys = keys::of(command.spec, args).unwrap_or_default();
            keys.into_iter().map(|key| Box::from(args.get(key.at))).collect::<Vec<_>>()
        };
        match &self.clients.get(client).queue {
            Some(queue) if command.has(Flags::RUNS_QUEUE) => {
                let each = queue.commands.iter().map(|queued| {
                    let parts: Vec<&[u8]> = queued.args.iter().map(|arg| &**arg).collect();
                    named(self.table.get(queued.command), &Args::new(&parts))
                });
                each.flatten().collect()
            }
            _ => named(command, args),
        }
    }
}

/// The places where they strike.
impl Core {
    /// Whether a request waits because the whole server does; `command`: what it asks for, if that
    /// is anything. What a test uses to end the stall is served.
    pub(super) fn postpone_in_stall(&mut self, client: usize, command: Option<&Command>) -> bool {
        if self.trouble.stall.is_none() || command.is_some_and(|command| command.has(Flags::TEST)) {
            return false;
        }
        let others = !self.trouble.stalled.is_empty();
        if !self.stands_still() {
            // It is over, and who waited goes first.
            return others;
        }
        self.clients.get_mut(client).wait = Some(Wait::Stall);
        self.trouble.stalled.push(client);
        true
    }

    /// Holds a request that was admitted against the rules.
    #[cold]
    pub(super) fn strike_before(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        out: &mut Vec<u8>,
    ) -> Taken {
        let spared = self.clients.get_mut(client).mark.take().is_some_and(|mark| *mark == Mark::Spared);
        if spared {
            self.trouble.spared -= 1;
            self.note_special();
        }
        if self.trouble.rules.is_empty() || command.has(Flags::TEST) {
            return Taken::Run(command);
        }
        let keys = self.keys_of(client, command, args);
        let rule = if spared { None } else { self.strike(Phase::Before, client, command, &keys, false) };
        if let Some(rule) = rule {
            match rule.action {
                Action::Error(line) => {
                    if command.has(Flags::RUNS_QUEUE) {
                        // As any refusal of EXEC: it ends the transaction.
                        self.clients.get_mut(client).queue = None;
                        self.unwatch(client);
                    }
                    let error = self.injected(line, Some(command));
                    self.writer(client, out).error(&error);
                    return Taken::Answered;
                }
                Action::Drop => {
                    self.close_after_reply(client);
                    return Taken::Answered;
                }
                Action::Hang => {
                    self.hang(client);
                    return Taken::Waits;
                }
                Action::Delay(ms) => {
                    self.spare(client);
                    self.delay(client, ms);
                    return Taken::Postponed;
                }
                Action::Stall(ms) => {
                    self.spare(client);
                    self.stall(client, ms);
                    return Taken::Postponed;
                }
                Action::ExpireFirst => self.expire_first(client, &rule, &keys),
                // Those come after the command (`Action::fits`).
                Action::Truncate(_) | Action::Split(_) => {}
            }
        }
        self.clients.get_mut(client).mark = Some(Box::new(Mark::Runs { command: command.id, keys }));
        Taken::Run(command)
    }

    /// Holds a request that has run against the rules; its reply is the end of `out`, from `start`
    /// on. Tells whether the client waits now.
    #[cold]
    pub(super) fn strike_after(&mut self, client: usize, out: &mut Vec<u8>, start: usize) -> bool {
        if let Some((command, keys)) = self.take_run(client)
            && let Some(rule) = self.strike(Phase::After, client, self.table.get(command), &keys, false)
        {
            // A connection that ends anyway is not kept waiting.
            let stays = self.clients.get(client).closing == Closing::No;
            match rule.action {
                Action::Error(line) => {
                    out.truncate(start);
                    let error = self.injected(line, None);
                    self.writer(client, out).error(&error);
                }
                Action::Drop => {
                    out.truncate(start);
                    self.close_after_reply(client);
                }
                Action::Truncate(bytes) => {
                    out.truncate(start.saturating_add(bytes));
                    self.close_after_reply(client);
                }
                Action::Hang if stays => {
                    out.truncate(start);
                    self.hang(client);
                }
                Action::Delay(ms) if stays => {
                    self.hold(client, out.split_off(start));
                    self.delay(client, ms);
                }
                Action::Stall(ms) if stays => {
                    self.hold(client, out.split_off(start));
                    self.stall(client, ms);
                }
                Action::Split(bytes) if stays => self.split(client, out, start, bytes),
                // That comes before the command (`Action::fits`).
                Action::Hang
                | Action::Delay(_)
                | Action::Stall(_)
                | Action::Split(_)
                | Action::ExpireFirst => {}
            }
        }
        self.pay_stall(client, out, start);
        self.clients.get(client).waits()
    }

    /// The command that `client` was marked as running, and its keys.
    fn take_run(&mut self, client: usize) -> Option<(usize, Vec<Box<[u8]>>)> {
        let runs = |mark: &mut Box<Mark>| matches!(**mark, Mark::Runs { .. });
        match *self.clients.get_mut(client).mark.take_if(runs)? {
            Mark::Runs { command, keys } => Some((command, keys)),
            _ => None,
        }
    }

    /// The reply of `client`'s command comes later, by another way: no rule strikes it.
    pub(super) fn leave_unharmed(&mut self, client: usize) {
        self.take_run(client);
    }

    /// Holds a single command of a transaction or a script against the rules.
    #[cold]
    pub(super) fn strike_inside(&mut self, client: usize, command: &Command, args: &Args<'_>) -> Inside {
        if self.trouble.rules.is_empty() || command.has(Flags::TEST) {
            return Inside::Unharmed;
        }
        let keys = self.keys_of(client, command, args);
        if let Some(rule) = self.strike(Phase::Before, client, command, &keys, true) {
            match rule.action {
                Action::Error(line) => return Inside::Instead(self.injected(line, Some(command))),
                Action::ExpireFirst => self.expire_first(client, &rule, &keys),
                Action::Stall(ms) => self.owe_stall(ms),
                _ => {}
            }
        }
        match self.strike(Phase::After, client, command, &keys, true).map(|rule| rule.action) {
            Some(Action::Error(line)) => return Inside::Afterwards(self.injected(line, None)),
            Some(Action::Stall(ms)) => self.owe_stall(ms),
            _ => {}
        }
        Inside::Unharmed
    }

    /// A rule's error, counted; `instead_of`: a command that does not run for it.
    fn injected(&mut self, line: Vec<u8>, instead_of: Option<&Command>) -> CommandError {
        let error = CommandError::Bytes(line);
        if let Some(command) = instead_of {
            self.stats.commands[command.id].rejected += 1;
        }
        self.stats.error(&error.code());
        error
    }

    /// The deadlines of those of `keys` that `rule` is about pass now.
    fn expire_first(&mut self, client: usize, rule: &Rule, keys: &[Box<[u8]>]) {
        let (index, now) = (self.clients.get(client).db, self.now());
        for key in keys.iter().filter(|key| rule.is_about(key)) {
            let db = self.keyspace.db_mut(index);
            let slot = db.find(key);
            if slot.is_some() && db.deadline(slot).is_some() {
                db.set_deadline(slot, Some(now));
                self.expire_key(index, key);
            }
        }
    }
}

/// What waits, and until when.
impl Core {
    fn spare(&mut self, client: usize) {
        self.clients.get_mut(client).mark = Some(Box::new(Mark::Spared));
        self.trouble.spared += 1;
    }

    fn hold(&mut self, client: usize, bytes: Vec<u8>) {
        self.clients.get_mut(client).mark = Some(Box::new(Mark::Held(bytes)));
    }

    fn hang(&mut self, client: usize) {
        let session = self.clients.get_mut(client);
        session.wait = Some(Wait::Hang);
        session.mark = Some(Box::new(Mark::Hung));
    }

    fn delay(&mut self, client: usize, ms: u64) {
        let until = self.in_ms(ms);
        self.wait_for_time(client, Wait::Delay { until });
    }

    fn stall(&mut self, client: usize, ms: u64) {
        self.clients.get_mut(client).wait = Some(Wait::Stall);
        self.trouble.stalled.push(client);
        self.begin_stall(ms);
    }

    fn begin_stall(&mut self, ms: u64) {
        let until = self.in_ms(ms);
        self.trouble.stall = self.trouble.stall.max(Some(until));
        self.cron_is_late = true;
        self.note_special();
    }

    fn owe_stall(&mut self, ms: u64) {
        self.trouble.owed_stall = self.trouble.owed_stall.saturating_add(ms);
        self.note_special();
    }

    /// The stall that a transaction or a script of `client`'s has met begins: it has run.
    fn pay_stall(&mut self, client: usize, out: &mut Vec<u8>, start: usize) {
        if self.trouble.owed_stall == 0 || self.script.is_some() {
            return;
        }
        let ms = std::mem::take(&mut self.trouble.owed_stall);
        let session = self.clients.get(client);
        if session.closing == Closing::No && !session.waits() {
            self.hold(client, out.split_off(start.min(out.len())));
            self.stall(client, ms);
        } else {
            self.begin_stall(ms);
        }
    }

    fn split(&mut self, client: usize, out: &mut Vec<u8>, start: usize, bytes: usize) {
        let first_end = start.saturating_add(bytes);
        if first_end >= out.len() {
            return;
        }
        self.hold(client, out.split_off(first_end));
        let next = UnixMs(self.now().0.saturating_add(PIECE_EVERY));
        self.wait_for_time(client, Wait::Split { next, bytes });
    }

    fn in_ms(&self, ms: u64) -> UnixMs {
        UnixMs(self.now().0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Sends the pieces of `client`'s reply whose time has come.
    pub(super) fn send_pieces(&mut self, client: usize) {
        let now = self.now();
        let session = self.clients.get_mut(client);
        let Some(Wait::Split { next, bytes }) = &mut session.wait else { return };
        let pieces = now.since(*next) / PIECE_EVERY + 1;
        next.0 = next.0.saturating_add(pieces.saturating_mul(PIECE_EVERY));
        let due = bytes.saturating_mul(usize::try_from(pieces).unwrap_or(0));
        match session.mark.as_deref_mut() {
            Some(Mark::Held(held)) if held.len() > due => {
                let rest = held.split_off(due);
                let piece = std::mem::replace(held, rest);
                session.outbox.add(&piece);
                self.clients.wake(client);
            }
            _ => self.end_fault(client),
        }
    }

    /// Ends what a fault has `client` wait for: what is held back for it goes out, and its requests
    /// are taken up.
    pub(super) fn end_fault(&mut self, client: usize) {
        let session = self.clients.get_mut(client);
        session.wait = None;
        let held = session.mark.take_if(|mark| matches!(**mark, Mark::Held(_) | Mark::Hung));
        self.waiting.retain(|&waiting| waiting != client);
        if let Some(Mark::Held(bytes)) = held.map(|mark| *mark) {
            self.push(client, &bytes);
        }
        self.clients.wake(client);
    }

    /// The whole server goes on.
    fn end_stall(&mut self) {
        self.trouble.stall = None;
        for client in std::mem::take(&mut self.trouble.stalled) {
            self.end_fault(client);
        }
        self.note_special();
    }

    /// Whether the whole server stands still. Ends a stall whose time has passed.
    pub(super) fn stands_still(&mut self) -> bool {
        if self.trouble.stall.is_some_and(|until| until <= self.now()) {
            self.end_stall();
        }
        self.trouble.stall.is_some()
    }

    /// Whether the data stays as it is, what falls due too: a pause or a stall is in force.
    pub(super) fn keeps_data(&self) -> bool {
        self.pause.is_some() || self.trouble.stall.is_some()
    }

    /// A client has left.
    pub(super) fn forget_trouble(&mut self, client: usize) {
        self.trouble.stalled.retain(|&stalled| stalled != client);
        let mark = self.clients.get_mut(client).mark.take();
        self.trouble.spared -= usize::from(mark.is_some_and(|mark| *mark == Mark::Spared));
    }
}
