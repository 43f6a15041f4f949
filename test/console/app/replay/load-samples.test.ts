/** Reading samples in the replay worker: progress, split lines, refused calls and lost connections. */
import { afterEach, expect, it, vi } from "vitest";
import { readSamples } from "../../../../src/console/app/replay/load-samples.ts";
import { startMs } from "./known-samples.ts";

const url = "https://admin.example.com/_headgate/api/samples?policy=api";
const request = { policy: "api", url, token: "the-token", nowMs: startMs } as const;
const header = {
  policy: "api",
  from: "2026-11-22T12:00:00.000Z",
  to: "2026-11-23T12:00:00.000Z",
  sample: "1/64",
  arrivals: 4,
  lost: 1,
  dropped: 0,
  requests: 300,
  coverage: 0.8,
  storedAt: "2026-11-23T11:58:00.000Z",
  ageMs: 120_000,
};
const [key, other] = ["A".repeat(43), "B".repeat(43)];
const arrivals = [
  [startMs - 2_000, 1, "allowed"],
  [startMs - 1_000, 1, "denied"],
];
const lines = [
  header,
  { id: key, arrivals },
  { id: other, arrivals: arrivals.slice(1), hasOtherLimits: true },
  { id: other, arrivals: arrivals.slice(0, 1) },
].map((line) => `${JSON.stringify(line)}\n`);

afterEach(() => vi.unstubAllGlobals());

/** Makes the API answer with these chunks. */
function answered(chunks: readonly string[], end: "end" | "cut" = "end") {
  const fetched = vi.fn<(called: string, options: RequestInit) => Promise<Response>>(async () => {
    const encoder = new TextEncoder();
    let sent = 0;
    return new Response(
      new ReadableStream<Uint8Array<ArrayBuffer>>({
        pull: (controller) => {
          const chunk = chunks[sent];
          sent += 1;
          if (chunk !== undefined) controller.enqueue(encoder.encode(chunk));
          else if (end === "end") controller.close();
          else controller.error(new TypeError("network error"));
        },
      }),
    );
  });
  vi.stubGlobal("fetch", fetched);
  return fetched;
}

const read = (onProgress: (share: number) => void = () => {}) =>
  readSamples(request, onProgress, new AbortController().signal);

it("samples are read with the token of the tab as they arrive, wherever a chunk ends", async () => {
  const text = lines.join("");
  const fetched = answered([text.slice(0, 300), text.slice(300, 301), text.slice(301)]);
  const shares: number[] = [];
  const { known, timelines, withOtherLimits } = await read((share) => shares.push(share));
  expect(known).toEqual({
    policy: "api",
    readAtMs: startMs,
    sample: "1/64",
    keys: 2,
    arrivals: 3,
    coverage: 0.8,
    storedAtMs: startMs - 120_000,
    source: timelines.source,
  });
  expect(timelines.source).toMatchObject({
    oneKeyIn: 64,
    requests: 300,
    lostArrivals: 1,
    otherLimitsArrivals: 1,
  });
  expect(withOtherLimits.atMs).toHaveLength(4);
  expect(shares).toEqual(shares.toSorted((one, two) => one - two));
  expect(shares.at(-1)).toBe(1);
  const [[called, { headers }] = ["", {}]] = fetched.mock.calls;
  expect(called).toBe(url);
  expect(new Headers(headers).get("Authorization")).toBe("Bearer the-token");
});

it("a line of samples may be longer than the longest accepted line of a log", async () => {
  const many = Array.from({ length: 50_000 }, (_, index) => [startMs - index, 1, "allowed"]);
  const line = JSON.stringify({ id: key, arrivals: many });
  expect(line.length).toBeGreaterThan(1_048_576);
  answered([lines[0] ?? "", line]);
  expect((await read()).known.arrivals).toBe(50_000);
});

it("a refused call reports the problem and the status of the Worker's response", async () => {
  const problem = { status: 503, title: "", detail: "The control plane does not answer." };
  vi.stubGlobal("fetch", async () => Response.json(problem, { status: 503 }));
  await expect(read()).rejects.toMatchObject({ status: 503, message: problem.detail });
});

it("a lost connection has the status 0, even when it is lost in the middle of the samples", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  await expect(read()).rejects.toMatchObject({ status: 0 });
  answered(lines.slice(0, 2), "cut");
  await expect(read()).rejects.toMatchObject({ status: 0 });
});

it("a response that does not contain samples is refused, and the error names the line", async () => {
  answered([...lines.slice(0, 2), "<html>"]);
  await expect(read()).rejects.toThrow(/^line 3 of the samples: expected a line of JSON/);
});
