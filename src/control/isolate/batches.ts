/**
 * The batches of statistics that wait for the control plane to store them. A batch that is not stored yet is sent again. When
 * too many wait, the open batch takes all further counts, so that no count is lost and memory is bounded.
 */
import type { PlainKey } from "../../policy/key.ts";
import { BoundedMap } from "../../policy/caches.ts";
import type { StatisticsBatch } from "../protocol.ts";
import type { CountedKey } from "../space-saving.ts";
import type { DrainedDenials } from "./denial-sample.ts";
import { type KeySealer, labelOf } from "./key-sealer.ts";
import type { DrainedSamples } from "./traffic-sample.ts";

const mostWaiting = 12;
/** The most keys of all waiting batches together, about 64 KB. */
const mostWaitingKeys = 768;
/** From this number of sampled events in waiting batches on, no further batch is closed: at most about 250 KB. */
const mostWaitingEvents = 4_000;

const mostSealed = 20;
/** How soon a listed key is sealed and sent again. The control plane keeps sealed keys for a day. */
const sealedAgainAfterMs = 3_600_000;
const mostSealedKnown = 4_096;

interface WaitingBatch {
  readonly batch: Omit<StatisticsBatch, "agoMs">;
  readonly closedAtMs: number;
  /** The number of keys in its lists. */
  readonly keys: number;
  /** The number of sampled events. */
  readonly events: number;
}

/** The counts of a batch. */
export type BatchCounts = Pick<
  StatisticsBatch,
  "policies" | "originFailures" | "requests" | "recorded" | "countedInMs"
>;

/** A listed key, which is sealed after its batch was closed. */
export interface SealedKey extends CountedKey {
  sealed?: string;
}

/** A listed key and its plain form. */
export interface SealCandidate {
  readonly policy: string;
  /** Its place in its list. */
  readonly rank: number;
  readonly key: string;
  readonly listed: { sealed?: string };
  readonly plain: PlainKey;
}

export class WaitingBatches {
  readonly #sealer: KeySealer | null;
  /** The oldest first. */
  #waiting: WaitingBatch[] = [];
  #lastSeq = 0;
  /** When a key was sealed last, by policy and key. */
  readonly #sealedAtMs = new BoundedMap<number>(mostSealedKnown);

  constructor(sealer: KeySealer | null) {
    this.#sealer = sealer;
  }

  /** Whether too much waits to close the open batch. */
  get isFull(): boolean {
    const keys = this.#waiting.reduce((sum, each) => sum + each.keys, 0);
    const events = this.#waiting.reduce((sum, each) => sum + each.events, 0);
    return this.#waiting.length >= mostWaiting || keys >= mostWaitingKeys || events >= mostWaitingEvents;
  }

  all(nowMs: number): StatisticsBatch[] {
    return this.#waiting.map(({ batch, closedAtMs }) => ({ ...batch, agoMs: Math.max(0, nowMs - closedAtMs) }));
  }

  /** Discards the batches up to this number. */
  stored(seq: number): void {
    this.#waiting = this.#waiting.filter(({ batch }) => batch.seq > seq);
  }

  /** Adds a batch with its samples and denials, and seals its keys that are due. */
  async add(
    counts: BatchCounts,
    sampled: DrainedSamples | null,
    denials: DrainedDenials | null,
    named: readonly SealCandidate[],
    nowMs: number,
  ): Promise<void> {
    const seq = ++this.#lastSeq;
    const lists = Object.values(counts.policies).flatMap((each) => [
      each.topDenied,
      each.topSpenders,
      each.topRefunded ?? [],
    ]);
    this.#waiting.push({
      batch: {
        seq,
        ...counts,
        ...(sampled !== null && { samples: sampled.batches }),
        ...(denials !== null && { denials: denials.batch }),
      },
      closedAtMs: nowMs,
      keys: lists.reduce((sum, { length }) => sum + length, 0),
      events: sampled?.events ?? 0,
    });
    await this.#seal([...named, ...(denials?.named ?? [])], nowMs);
  }

  /** Seals the first key of each list, then the second of each, and so on. */
  async #seal(named: readonly SealCandidate[], nowMs: number): Promise<void> {
    const sealer = this.#sealer;
    if (sealer === null) return;
    const chosen: SealCandidate[] = [];
    for (const each of named.toSorted((one, other) => one.rank - other.rank)) {
      if (chosen.length === mostSealed) break;
      const name = `${each.policy} ${each.key}`;
      const atMs = this.#sealedAtMs.get(name);
      if (atMs !== undefined && nowMs >= atMs && nowMs - atMs < sealedAgainAfterMs) continue;
      this.#sealedAtMs.set(name, nowMs);
      chosen.push(each);
    }
    await Promise.all(
      chosen.map(async ({ policy, key, listed, plain }) => {
        listed.sealed = await sealer.seal(policy, key, labelOf(plain));
      }),
    );
  }
}
