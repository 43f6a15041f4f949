/** The samples of policies that this tab has read. They stay in use while newer ones cannot be read. */
import { computed, type ReadonlySignal, type Signal, signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import type { KnownSamples } from "./messages.ts";
import { loadSamples, onWorkerLost } from "./replayer.ts";

export interface SamplesState {
  /** The last samples that were read; null before the first. */
  readonly samples: ReadonlySignal<KnownSamples | null>;
  /** Why the last read was refused; null after a success, and while the connection is lost. */
  readonly problem: ReadonlySignal<Error | null>;
  /** The share of the samples that has arrived, from 0 to 1. */
  readonly progress: ReadonlySignal<number>;
  readonly readAgain: () => void;
}

/** Samples may have many megabytes, so they are read again after some minutes only. */
const freshMs = 300_000;
/** A new deployment has its first samples soon. */
const pauseMs = 10_000;

const known = signal<ReadonlyMap<string, KnownSamples>>(new Map());
onWorkerLost(() => {
  known.value = new Map();
});

/** Reads the samples of the last 24 hours unless this tab has fresh ones. */
export function useSamples(policy: string): SamplesState {
  const progress = useSignal(0);
  const { problem, readAgain } = usePolled((abort) => readUnlessFresh(policy, progress, abort), pauseMs, [policy]);
  const samples = useMemo(() => computed(() => known.value.get(policy) ?? null), [policy]);
  return { samples, problem, progress, readAgain };
}

async function readUnlessFresh(policy: string, progress: Signal<number>, abort: AbortSignal): Promise<void> {
  const last = known.peek().get(policy);
  if (last !== undefined && isFresh(last)) return;
  progress.value = 0;
  const onProgress = (share: number): void => {
    progress.value = share;
  };
  const all = await loadSamples(policy, { abort, onProgress });
  known.value = new Map(all.map((each) => [each.policy, each]));
}

const isFresh = ({ arrivals, readAtMs }: KnownSamples): boolean => arrivals > 0 && now() - readAtMs < freshMs;
