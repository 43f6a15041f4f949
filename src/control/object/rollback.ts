/**
 * Returns the rules to what they were after an audit entry. A long rollback works in parts, and the object answers
 * other calls between them. Each part is one transaction. The first one restores the rules of all policies, and each
 * later one a few rules of keys. The alarm continues a rollback after its caller has got an answer, or after a crash.
 *
 * A change that an operator makes during the rollback is newer, and stays. A further rollback replaces the one that is
 * running.
 */
import { mostRulesBytes } from "../../policy/read-runtime-rules.ts";
import { type Clock, sleep } from "../../limiter/clock.ts";
import type { Changed, Rule } from "../protocol.ts";
import type { Rollback, RollbackEnds, RollbackProgress } from "../history-calls.ts";
import type { AuditLog } from "./audit-log.ts";
import type { Meta } from "./storage.ts";
import type { RuleBook } from "./rule-book.ts";
import type { SetName } from "./rule-table.ts";
import type { Task } from "./scheduler.ts";

/** How many audit entries are read, and how many rules are compared and written, at once. */
const readAtOnce = 1_000;
const comparedAtOnce = 100;
const writtenAtOnce = 25;
const pauseMs = 5;
/** How long a call, or an alarm, works on a rollback. */
const callMs = 700;
const alarmMs = 2_000;
/** The most restored rules that an answer contains. */
const mostAnswered = 100;

interface Job extends RollbackProgress, RollbackEnds {}

/** A rollback, and what it has done. */
interface RollbackRun {
  job: Job | null;
  /** Whether it failed because an entry that it needs is damaged. */
  isDamaged: boolean;
  /** The first rules that it has restored, and all sets of keys that it has changed. */
  readonly restored: Rule[];
  readonly keySets: SetName[];
}

interface RollbackParts {
  readonly book: RuleBook;
  readonly meta: Meta;
  readonly clock: Clock;
  /** Called with the sets of key rules that a part has changed. */
  readonly onChanged: (sets: readonly SetName[]) => void;
  /** Called before other calls are answered, while there is more to do. */
  readonly onPause: () => void;
}

/** How far a rollback is when its caller gets the answer. */
type Begun = Omit<RollbackRun, "job" | "isDamaged"> & { readonly progress: RollbackProgress };

export class Rollbacks implements Task {
  readonly #parts: RollbackParts;
  /**
   * The latest rollback. A new rollback replaces the whole object, so that each caller gets the answer to its own
   * rollback.
   */
  #run: RollbackRun;
  /** The work that is left; null when it must be planned again. */
  #work: Iterator<void, void> | null = null;

  constructor(parts: RollbackParts) {
    this.#parts = parts;
    this.#run = newRun(JSON.parse(parts.meta.read("rollback") ?? "null"));
    parts.book.audit.isHeld = this.isRunning;
  }

  get isRunning(): boolean {
    return this.#job?.state === "running";
  }

  /** The latest rollback; null when there was none. */
  get progress(): RollbackProgress | null {
    return this.#job && progressOf(this.#job);
  }

  get #job(): Job | null {
    return this.#run.job;
  }

  dueAtMs(): number | null {
    return this.isRunning ? this.#parts.clock.now() : null;
  }

  run(): Promise<void> {
    return this.#workFor(alarmMs);
  }

  /** Begins a rollback, and works on it for `callMs`. The alarm continues it if it takes longer. */
  async begin({ toSeq, actor, note }: Rollback): Promise<Changed<Begun>> {
    const { book, clock } = this.#parts;
    if (!book.audit.reaches(toSeq)) return { kind: "unknown" };
    const run = newRun(null);
    this.#run = run;
    this.#keep({
      state: "running",
      toSeq,
      actor,
      note,
      startedAtMs: clock.now(),
      endedAtMs: null,
      total: null,
      examined: 0,
      changed: 0,
      untilSeq: book.audit.lastSeq,
    });
    this.#work = null;
    await this.#workFor(callMs);
    const { job, restored, keySets } = run;
    if (job === null || (job.state === "running" && this.#run !== run)) return { kind: "replaced" };
    if (run.isDamaged) return { kind: "unknown" };
    return job.state === "failed"
      ? { kind: "too-large", mostBytes: mostRulesBytes }
      : { kind: "done", value: { progress: progressOf(job), restored, keySets } };
  }

  async #workFor(ms: number): Promise<void> {
    const { clock, onPause } = this.#parts;
    const untilMs = clock.now() + ms;
    while (this.#workOnce() && clock.now() < untilMs) {
      onPause();
      // oxlint-disable-next-line no-await-in-loop -- other calls are answered meanwhile
      await sleep(clock, pauseMs);
    }
  }

  /** @returns whether there is more to do */
  #workOnce(): boolean {
    const job = this.#job;
    if (job === null || !this.isRunning) return false;
    this.#work ??= this.#steps(job);
    try {
      this.#work.next();
    } catch (error) {
      // The failed part was rolled back. The next attempt compares all rules again.
      this.#work = null;
      throw error;
    }
    return this.isRunning;
  }

  /** Yields where a pause is possible. A short rollback has none. */
  *#steps({ toSeq, untilSeq }: Job): Generator<void, void> {
    const { audit } = this.#parts.book;
    const since = new ChangesSince(audit, toSeq, untilSeq);
    yield* since.read();
    if (since.isDamaged) {
      this.#run.isDamaged = true;
      this.#progress({ state: "failed", endedAtMs: this.#parts.clock.now() });
      return;
    }
    const changes = [...since.rules.values()];
    this.#progress({ total: changes.length, examined: 0 });
    const ofPolicies = changes.filter(({ isOfPolicy }) => isOfPolicy);
    const differing: RuleHistory[] = [];
    for (const [index, some] of chunksOf(ofPolicies, comparedAtOnce).entries()) {
      if (index > 0) yield;
      differing.push(...some.filter((change) => this.#differs(change)));
    }
    if (!this.#restore(differing.filter((change) => !since.isNewer(change)))) {
      this.#progress({ state: "failed", endedAtMs: this.#parts.clock.now() });
      return;
    }
    this.#progress({ examined: ofPolicies.length });
    const ofKeys = changes.filter(({ isOfPolicy }) => !isOfPolicy);
    for (const [index, some] of chunksOf(ofKeys, writtenAtOnce).entries()) {
      if (index > 0) yield;
      // Operators may have changed rules in the pause.
      yield* since.read();
      this.#restore(some.filter((change) => !since.isNewer(change)));
      this.#progress({ examined: (this.#job?.examined ?? 0) + some.length });
    }
    audit.isHeld = false;
    while (audit.removeExcess()) yield;
    this.#progress({ state: "done", endedAtMs: this.#parts.clock.now() });
  }

  #differs({ id, first }: RuleHistory): boolean {
    const { book, clock } = this.#parts;
    return book.differs(id, book.audit.entry(first)?.before ?? null, clock.now());
  }

  /** @returns false when the rules of a policy would be too large; then nothing is changed */
  #restore(changes: readonly RuleHistory[]): boolean {
    const job = this.#job;
    if (job === null || changes.length === 0) return true;
    const { book, clock, onChanged } = this.#parts;
    const { changed, keySets } = book.restore(changes, job, clock.now());
    if (changed.kind !== "done") return false;
    const { restored, count } = changed.value;
    const run = this.#run;
    run.restored.push(...restored.slice(0, mostAnswered - run.restored.length));
    run.keySets.push(...keySets);
    onChanged(keySets);
    this.#progress({ changed: job.changed + count });
    return true;
  }

  #progress(progress: Partial<Job>): void {
    if (this.#job !== null) this.#keep({ ...this.#job, ...progress });
  }

  #keep(job: Job): void {
    const { meta, book } = this.#parts;
    meta.write("rollback", JSON.stringify(job));
    this.#run.job = job;
    book.audit.isHeld = this.isRunning;
  }
}

const newRun = (job: Job | null): RollbackRun => ({ job, isDamaged: false, restored: [], keySets: [] });

function progressOf(job: Job): RollbackProgress {
  const { untilSeq: _, ...progress } = job;
  return progress;
}

/** The first and the last entry that changed a rule since the target of a rollback. */
export interface RuleHistory {
  readonly id: string;
  readonly first: number;
  last: number;
  readonly isOfPolicy: boolean;
}

/** The rules that have changed since the target of a rollback, in the order of their first change. */
class ChangesSince {
  readonly rules = new Map<string, RuleHistory>();
  /** Whether an entry up to the beginning of the rollback does not say what it changed. */
  isDamaged = false;
  readonly #audit: AuditLog;
  readonly #untilSeq: number;
  /** Rules that operators have changed since the rollback began. */
  readonly #newer = new Set<string>();
  #readTo: number;

  /** @param untilSeq the last entry when the rollback began */
  constructor(audit: AuditLog, toSeq: number, untilSeq: number) {
    this.#audit = audit;
    this.#untilSeq = untilSeq;
    this.#readTo = toSeq;
  }

  isNewer({ id }: RuleHistory): boolean {
    return this.#newer.has(id);
  }

  /** Reads to the end of the log, with a pause after each part of it. */
  *read(): Generator<void, void> {
    for (;;) {
      const changes = this.#audit.changesAfter(this.#readTo, readAtOnce);
      for (const { seq, rule: id, action, isOfPolicy } of changes) {
        if (action === null && seq <= this.#untilSeq) this.isDamaged = true;
        const known = this.rules.get(id);
        if (known !== undefined) known.last = seq;
        else if (seq <= this.#untilSeq) this.rules.set(id, { id, first: seq, last: seq, isOfPolicy });
        const isOfOperator = action !== "rollback" && action !== "expire";
        if (seq > this.#untilSeq && isOfOperator) this.#newer.add(id);
        this.#readTo = seq;
      }
      if (changes.length < readAtOnce) return;
      yield;
    }
  }
}

function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  const count = Math.ceil(items.length / size);
  return Array.from({ length: count }, (_, index) => items.slice(index * size, (index + 1) * size));
}
