/** A pasted log as traffic: an access log, or samples of a deployment (the lines of `GET /api/samples`). */
import type { LoggedRequest } from "../../../advisor/log/line-reader.ts";
import { LineCounts, linesOf, type ReadLog } from "../../../advisor/log/read-log.ts";
import { SamplesProblem, SamplesReader } from "../../../advisor/replay/read-samples.ts";
import type { Timelines } from "../../../advisor/replay/timelines.ts";
import type { Arrivals } from "./traffic.ts";

const headerForm = /^\s*\{[^\n]*"sample"\s*:\s*"(?:1\/\d+|off)"/;

/** Whether the text begins with the first line of samples. */
export const isSampleText = (text: string): boolean => headerForm.test(text);

/** Reads samples until there are about `mostRequests` requests. The lines after them count as unread. */
export function readSampleLog(text: string, mostRequests: number): ReadLog {
  const reader = new SamplesReader();
  const counts = new LineCounts();
  for (const line of linesOf(text)) {
    counts.line++;
    if (line.trim() === "") continue;
    if (reader.arrivals >= mostRequests) {
      counts.skip(`more than ${mostRequests} requests`);
      continue;
    }
    try {
      reader.line(line);
      // The first line is the header.
      if (counts.line > 1) counts.read++;
    } catch (error) {
      if (!(error instanceof SamplesProblem)) throw error;
      counts.skip(error.message.replace(/^line \d+ of the samples: /, ""));
    }
  }
  const { read, unread, firstUnread } = counts;
  const requests = read === 0 ? [] : requestsOf(reader.finish().withOtherLimits);
  return { requests, report: { read, unread, firstUnread } };
}

function requestsOf(timelines: Timelines): readonly LoggedRequest[] {
  const { keys, firstRow, atMs, cost, reservations } = timelines;
  return keys.flatMap((key, index) => {
    const requests: LoggedRequest[] = [];
    for (let row = firstRow[index] ?? 0; row < (firstRow[index + 1] ?? 0); row++) {
      const units = reservations.get(row)?.settledCost ?? cost[row] ?? 0;
      requests.push({ atMs: atMs[row] ?? 0, key, cost: units });
    }
    return requests;
  });
}

/** The requests in order of time. Those of the same time keep their order. */
export function arrivalsOfLog(requests: readonly LoggedRequest[]): Arrivals {
  const isSorted = requests.every(({ atMs }, index) => index === 0 || (requests[index - 1]?.atMs ?? 0) <= atMs);
  const sorted = isSorted ? requests : requests.toSorted((a, b) => a.atMs - b.atMs);
  const startMs = sorted[0]?.atMs ?? 0;
  const indexes = new Map<string, number>();
  const indexOf = (key: string): number => {
    const known = indexes.get(key) ?? indexes.size;
    indexes.set(key, known);
    return known;
  };
  return {
    startMs,
    atMs: Float64Array.from(sorted, ({ atMs }) => atMs - startMs),
    key: Uint32Array.from(sorted, ({ key }) => indexOf(key)),
    cost: Float64Array.from(sorted, ({ cost }) => cost),
    keys: [...indexes.keys()],
  };
}
