/**
 * The statistics of all isolates. Counts are open until they are written: the object may lose its memory at any time,
 * and isolates send each batch again until a beat's answer says that it is stored. The open state is one row with the
 * current minutes, the numbers of the counted batches, the totals, the lists of the current hour, the new samples of
 * traffic, the new denials and the new counts of recorded keys, so that it is consistent after every crash.
 *
 * Written rows are the main cost. One isolate that decides ten times a second, with a beat each five seconds, writes
 * the open state each 30 seconds (86,400 rows a month) and each minute once (43,200 rows). Hours, lists and alarms add
 * about 3,000 rows.
 */
import { errorText, report } from "../../observability/events.ts";
import type { DeniedKeys, DeniedKeysQuery, DenialsQuery, LoggedDenials } from "../denial-calls.ts";
import type { BeatCall, TopKey } from "../protocol.ts";
import {
  firstTopHour,
  type SampleIndex,
  type SamplesQuery,
  type Statistics as StatisticsAnswer,
  type StatisticsQuery,
  type StatisticsTop,
  type StatisticsTopQuery,
  type TopQuery,
} from "../statistics-calls.ts";
import { DenialRuns, type DenialRunsState } from "./denial-runs.ts";
import { type DenialsState, StoredDenials } from "./denials.ts";
import { type RecordingsState, Recordings } from "./recordings.ts";
import { type SamplesState, StoredSamples } from "./samples.ts";
import type { Task } from "./scheduler.ts";
import { type BatchesState, CountedBatches } from "./statistics-batches.ts";
import {
  StatisticsRows,
  Tally,
  type TallySource,
  dayMs,
  denialsIn,
  firstCountsOf,
  floorTo,
  hourMs,
  limitedIn,
  minuteMs,
  mostDenying,
  pointsOf,
  stepsOf,
} from "./statistics-rows.ts";
import { type ControlStorage, isNumber, numberIn, parsedRecord, rowsIn } from "./storage.ts";
import { TopKeys, type TopKeysState } from "./top-keys.ts";

/** The longest time that counts stay unwritten while beats arrive. */
const longestOpenMs = 30_000;
/**
 * The same while somebody reads the statistics. Isolates then send a batch each second, and keep the counts of further seconds
 * back when too many batches are not stored.
 */
const longestWatchedMs = 2_000;
/** A read of the totals stores open counts at this interval at most: each write costs. */
const readIntervalMs = 5_000;
/** After a longer gap the object may hibernate before the next beat, so the beat is written at once. */
const longestGapMs = 8_000;
/** A minute stays open for this long after its end, for batches that come late. */
const lateMs = minuteMs;

interface OpenState {
  /** The minutes that have no row yet. */
  readonly minutes: readonly (readonly [atMs: number, minute: TallySource])[];
  readonly batches: BatchesState;
  readonly totals: TallySource;
  readonly top: TopKeysState;
  readonly samples: SamplesState;
  readonly denials: DenialsState;
  /** Absent in the state of an older version. */
  readonly recorded?: RecordingsState | null;
  readonly rolledUpToMs: number;
  readonly lastBeatMs: number | null;
  /** Absent in the state of earlier versions. */
  readonly denialRuns?: DenialRunsState;
}

/** Receives each finished minute. After a crash, a minute may be finished again. */
export type MinuteListener = (atMs: number, minute: Tally) => void;

export interface StoreOptions {
  /** The most denials that are kept for each policy; null when none are logged. Default: null. */
  readonly mostDenials?: number | null;
  readonly onMinute?: MinuteListener;
}

export class StatisticsStore implements Task {
  readonly recordings: Recordings;
  readonly #storage: ControlStorage;
  readonly #rows: StatisticsRows;
  readonly #top: TopKeys;
  readonly #samples: StoredSamples;
  readonly #denials: StoredDenials;
  readonly #batches: CountedBatches;
  readonly #denialRuns: DenialRuns;
  /** The minutes that are not written yet. */
  readonly #minutes = new Map<number, Tally>();
  readonly #totals: Tally;
  /** The totals as they are stored: these never decrease. */
  #storedTotals: Tally;
  /** The hours before this instant have their rows. */
  #rolledUpToMs: number;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #lastBeatMs: number | null;
  #isOpen = false;
  #retentionDueMs: number | null;
  readonly #onMinute: MinuteListener;

  constructor(
    storage: ControlStorage,
    nowMs: number,
    { mostDenials = null, onMinute = () => undefined }: StoreOptions = {},
  ) {
    this.#storage = storage;
    this.#onMinute = onMinute;
    this.#rows = new StatisticsRows(storage.sql);
    const state = parsedRecord<OpenState>(this.#rows.readState());
    const { top, samples, denials, recorded, batches, minutes, totals, rolledUpToMs, lastBeatMs, denialRuns } = state;
    this.#top = new TopKeys(storage.sql, top);
    this.#samples = new StoredSamples(storage.sql, samples);
    this.#denials = new StoredDenials(storage.sql, denials, mostDenials, nowMs);
    this.recordings = new Recordings(storage.sql, recorded);
    this.#batches = new CountedBatches(batches);
    for (const [atMs, minute] of rowsIn(minutes, "number")) this.#minutes.set(atMs, Tally.revived(minute));
    this.#totals = Tally.revived(totals);
    this.#storedTotals = Tally.revived(totals);
    this.#rolledUpToMs = numberIn(rolledUpToMs);
    this.#lastBeatMs = isNumber(lastBeatMs) ? lastBeatMs : null;
    this.#denialRuns = new DenialRuns(denialRuns);
    if (denialRuns === undefined) this.#readDenialRuns(nowMs);
    this.#retentionDueMs = this.#nextRetentionMs(nowMs);
  }

  /**
   * Counts the batches of a beat.
   * @param isWatched whether somebody reads the statistics or the tail
   * @returns the number up to which the isolate's batches are stored
   */
  record({ isolate, batches, tail }: BeatCall, nowMs: number, isWatched = false): number {
    if (batches.length > 0) this.#batches.see(isolate, nowMs);
    for (const batch of batches) {
      const closedAtMs = nowMs - batch.agoMs;
      if (!this.#batches.count(isolate, batch.seq, closedAtMs)) continue;
      const minuteAtMs = this.#minuteAtMs(batch.countedInMs, closedAtMs, nowMs);
      this.#minute(minuteAtMs).add(batch);
      this.recordings.add(batch.recorded, minuteAtMs, nowMs);
      this.#totals.add(batch);
      this.#denialRuns.add(batch, Math.min(closedAtMs, minuteAtMs + minuteMs - 1));
      this.#top.add(batch.policies, nowMs);
      this.#samples.add(batch.samples, nowMs);
      this.#denials.add(batch.denials, closedAtMs, (countedInMs) => openMinute(countedInMs, nowMs));
      for (const { policy, key, sealed } of batch.denials?.entries ?? []) {
        if (key !== null) this.#top.addSealed(policy, key, sealed, nowMs);
      }
    }
    for (const { policy, key, sealed } of tail) this.#top.addSealed(policy, key, sealed, nowMs);
    this.#isOpen ||= batches.length > 0;
    const isAfterGap = Math.abs(nowMs - (this.#lastBeatMs ?? Infinity)) > longestGapMs;
    const longestMs = isWatched ? longestWatchedMs : longestOpenMs;
    const isLongOpen = Math.abs(nowMs - this.#writtenMs) >= longestMs;
    this.#lastBeatMs = nowMs;
    const hasRows = this.#top.hasEnded || this.#samples.hasClosed || this.#denials.hasClosed;
    if (this.#isOpen && (isAfterGap || isLongOpen || hasRows)) this.write(nowMs);
    return this.#batches.storedSeq(isolate);
  }

  /** The counts of the current and the previous minute. */
  recent(nowMs: number): Tally {
    const recent = new Tally();
    for (const [atMs, minute] of this.#minutes) {
      if (nowMs - atMs < 2 * minuteMs) recent.add(minute.toJSON());
    }
    return recent;
  }

  /**
   * The stored counts since the control plane was created. Open counts are left out: a crash may lose them, and metrics
   * must never decrease.
   */
  totals(nowMs: number): Tally {
    if (this.#isOpen && Math.abs(nowMs - this.#writtenMs) >= readIntervalMs) this.write(nowMs);
    return this.#storedTotals;
  }

  /** Null before the first beat. */
  get lastBeatMs(): number | null {
    return this.#lastBeatMs;
  }

  /**
   * The counts by step and policy. There is no point for a step in which a policy decided nothing: a plot shows 0 there. Steps
   * are whole minutes of the last 24 hours, or whole hours of the last 90 days. The answer states the step that it has.
   */
  statistics(query: StatisticsQuery, nowMs: number): StatisticsAnswer {
    const { period, fromMs, toMs, stepMs } = stepsOf(query, nowMs);
    const open = new Map([...this.#minutes].filter(([atMs]) => atMs >= fromMs && atMs < toMs));
    const rolledUpToMs = period === "hours" ? Math.max(fromMs, this.#rolledUpToMs) : fromMs;
    const rows = [
      ...(period === "hours" ? this.#rows.read("hours", fromMs, toMs) : []),
      ...this.#rows.read("minutes", rolledUpToMs, toMs),
      ...open,
    ];
    const counted = pointsOf(rows, stepMs, query.policy);
    return {
      fromMs,
      toMs,
      stepMs,
      ...counted,
      denialRuns: this.#denialRuns.latest(nowMs),
      firstCounts: firstCountsOf(rows),
      ...(query.top !== undefined && { top: this.#topWithin(query.top, counted.points, { fromMs, toMs }, nowMs) }),
    };
  }

  #topWithin(
    { policy: chosen, limit, steps }: StatisticsTopQuery,
    points: StatisticsAnswer["points"],
    span: Pick<StatisticsAnswer, "fromMs" | "toMs">,
    nowMs: number,
  ): StatisticsTop | null {
    const policy = chosen ?? mostDenying(points);
    if (policy === null) return null;
    const fromMs = firstTopHour(span.fromMs, nowMs);
    const keys = this.top({ policy, by: "denied", limit, fromMs }, nowMs);
    return { policy, fromMs, keys, period: this.deniedKeys({ policy, limit, steps, ...span }, nowMs) };
  }

  top(query: TopQuery, nowMs: number): readonly TopKey[] {
    return this.#top.top(query, nowMs);
  }

  /** The sealed keys of partition keys in the lists or the tail of the last 24 hours; null for one that is not known. */
  sealedKeys(policy: string, keys: readonly string[], nowMs: number): readonly (string | null)[] {
    return this.#top.sealedKeys(policy, keys, nowMs);
  }

  /** The sampled traffic of a policy within a period, without the events of its chunks. */
  samples(query: SamplesQuery): SampleIndex {
    const { recordedFromMs, ...index } = this.#samples.index(query);
    return { ...index, requests: this.#requests(query.policy, recordedFromMs, query.toMs) };
  }

  sampleChunks(policy: string, ids: readonly number[]): readonly ArrayBuffer[] {
    return this.#samples.bodies(policy, ids);
  }

  denials(query: DenialsQuery, nowMs: number): LoggedDenials {
    return this.#denials.read(query, nowMs);
  }

  deniedKeys(query: DeniedKeysQuery, nowMs: number): DeniedKeys {
    const keys = this.#denials.keys(query, nowMs);
    return { ...keys, isComplete: keys.isComplete && !this.#deniedBeforeLog(query) };
  }

  /** Whether the policy denied requests in the period before denials were logged. The first batches may be a minute old. */
  #deniedBeforeLog({ policy, fromMs }: DeniedKeysQuery): boolean {
    const untilMs = floorTo(minuteMs, this.#denials.sinceMs ?? 0) - minuteMs;
    if (untilMs <= fromMs) return false;
    const open = [...this.#minutes].filter(([atMs]) => atMs >= fromMs && atMs < untilMs);
    return [...this.#rows.read("minutes", fromMs, untilMs), ...open].some(
      ([, minute]) => denialsIn(minute.of(policy)) > 0,
    );
  }

  dueAtMs(): number | null {
    return this.#retentionDueMs;
  }

  /** Finishes minutes and hours when no more beats arrive, and deletes old rows. */
  run(nowMs: number): void {
    this.#top.endHour(nowMs);
    this.#samples.deleteOld(nowMs);
    this.#denials.deleteOld(nowMs);
    this.recordings.deleteOld(nowMs);
    this.write(nowMs);
    this.#rows.deleteOld(nowMs);
    this.#top.deleteOld(nowMs);
    this.#retentionDueMs = this.#nextRetentionMs(nowMs);
  }

  /** Writes the open state, and the rows of minutes and hours that are over. */
  write(nowMs: number): void {
    const finished = [...this.#minutes].filter(([atMs]) => nowMs - atMs >= minuteMs + lateMs);
    const open = [...this.#minutes].filter(([atMs]) => nowMs - atMs < minuteMs + lateMs);
    const rolledUpToMs = floorTo(hourMs, nowMs - lateMs);
    const firstMs = Math.min(rolledUpToMs, ...finished.map(([atMs]) => floorTo(hourMs, atMs)));
    const totals = this.#totals.toJSON();
    this.#samples.closeOld(nowMs);
    this.#denials.closeOld(nowMs);
    this.recordings.closeOld(nowMs);
    try {
      this.#storage.transactionSync(() => {
        // Minutes of a day ago are summed first, because the finished minutes overwrite their rows.
        this.#rollUp(firstMs);
        for (const [atMs, minute] of finished) this.#rows.add("minutes", atMs, minute);
        this.#rollUp(rolledUpToMs);
        this.#top.write();
        this.#samples.write();
        this.#denials.write();
        this.recordings.write(nowMs);
        const state: OpenState = {
          minutes: open.map(([atMs, minute]) => [atMs, minute.toJSON()]),
          batches: this.#batches.toJSON(),
          totals,
          top: this.#top.toJSON(),
          samples: this.#samples.toJSON(),
          denials: this.#denials.toJSON(),
          recorded: this.recordings.toJSON(),
          rolledUpToMs: Math.max(rolledUpToMs, this.#rolledUpToMs),
          lastBeatMs: this.lastBeatMs,
          denialRuns: this.#denialRuns.toJSON(nowMs),
        };
        this.#rows.writeState(JSON.stringify(state));
      });
    } catch (error) {
      // The counts stay open. Isolates keep their batches, and the next beat tries again.
      report({ event: "control-plane-failed", error: errorText(error) });
      return;
    }
    this.#rolledUpToMs = Math.max(rolledUpToMs, this.#rolledUpToMs);
    this.#storedTotals = Tally.revived(totals);
    this.#batches.markStored();
    this.#top.markStored();
    this.#samples.markStored();
    this.#denials.markStored();
    this.recordings.markStored();
    for (const [atMs] of finished) this.#minutes.delete(atMs);
    this.#isOpen = false;
    this.#writtenMs = nowMs;
    this.#retentionDueMs ??= nowMs + hourMs;
    for (const [atMs, minute] of finished) this.#onMinute(atMs, minute);
  }

  /** Finds the runs in the stored minutes, which a state of an earlier version does not have. */
  #readDenialRuns(nowMs: number): void {
    for (const [atMs, minute] of [...this.#rows.read("minutes", nowMs - dayMs, nowMs), ...this.#minutes]) {
      this.#denialRuns.add(minute.toJSON(), atMs);
      this.#denialRuns.add(minute.toJSON(), Math.min(nowMs, atMs + minuteMs));
    }
  }

  #rollUp(toMs: number): void {
    if (toMs > this.#rolledUpToMs) this.#rows.rollUp(this.#rolledUpToMs, toMs);
  }

  /** Decisions of the policy that samples have. Whole hours are read from their rows: a day has 1,440 minutes. */
  #requests(policy: string, fromMs: number, toMs: number): number {
    const firstMs = floorTo(minuteMs, fromMs);
    const hoursFromMs = Math.min(floorTo(hourMs, firstMs + hourMs - 1), toMs);
    const hoursToMs = Math.max(hoursFromMs, floorTo(hourMs, Math.min(toMs, this.#rolledUpToMs)));
    const tallies = [
      ...this.#rows.read("minutes", firstMs, hoursFromMs),
      ...this.#rows.read("hours", hoursFromMs, hoursToMs),
      ...this.#rows.read("minutes", hoursToMs, toMs),
      ...[...this.#minutes].filter(([atMs]) => atMs >= firstMs && atMs < toMs),
    ];
    return tallies.reduce((sum, [, tally]) => sum + limitedIn(tally.of(policy)), 0);
  }

  /**
   * The minute in which the isolate made the counts; if it is in the future or not open, the minute in which the batch was
   * closed; if that is not open either, the current one.
   */
  #minuteAtMs(countedInMs: number | undefined, closedAtMs: number, nowMs: number): number {
    const currentMs = floorTo(minuteMs, nowMs);
    return openMinute(countedInMs, nowMs) ?? openMinute(closedAtMs, nowMs) ?? currentMs;
  }

  #minute(atMs: number): Tally {
    const minute = this.#minutes.get(atMs) ?? new Tally();
    this.#minutes.set(atMs, minute);
    return minute;
  }

  /** At most once an hour: each alarm costs. */
  #nextRetentionMs(nowMs: number): number | null {
    const parts = [this.#rows, this.#top, this.#samples, this.#denials, this.recordings];
    const dueAtMs = parts.map((each) => each.nextDeletionMs()).filter((atMs) => atMs !== null);
    const unwritten = [this.#samples, this.#denials, this.recordings];
    if (this.#minutes.size > 0 || unwritten.some(({ isEmpty }) => !isEmpty)) dueAtMs.push(nowMs + hourMs);
    return dueAtMs.length === 0 ? null : Math.max(nowMs + hourMs, Math.min(...dueAtMs));
  }
}

/** The minute of an instant; null if it is in the future, or no longer open. */
function openMinute(atMs: number | undefined, nowMs: number): number | null {
  const minuteAtMs = floorTo(minuteMs, isNumber(atMs) ? atMs : Number.NaN);
  return minuteAtMs <= nowMs && nowMs - minuteAtMs < minuteMs + lateMs ? minuteAtMs : null;
}
