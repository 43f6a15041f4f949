/** The measurements that `npm run bench -- <name>` runs, each with one line for the list of names. */

export interface BenchCommand {
  readonly about: string;
  /** Imports the module, which reads the command line and measures. */
  readonly run: () => Promise<unknown>;
}

export const benchCommands: Readonly<Record<string, BenchCommand>> = {
  strategies: {
    about: "Decisions per second of every strategy and of two npm packages.",
    run: () => import("./strategies.ts"),
  },
  replay: {
    about: "A million arrivals replayed under 27 sets of limits. Fails above 10 s.",
    run: () => import("./replay-speed.ts"),
  },
  advisor: {
    about: "How often the advisor's intervals hold and its goals are met, by kind of traffic.",
    run: () => import("./advisor.ts"),
  },
  accuracy: {
    about: "Over- and under-admission of every strategy, compared with an exact sliding log.",
    run: () => import("./accuracy.ts"),
  },
  http: {
    about: "Requests per second and latency on workerd, beside other rate limiters.",
    run: () => import("./http.ts"),
  },
  cost: {
    about: "The price of a million decisions on Cloudflare, by shape of traffic.",
    run: () => import("./cost.ts"),
  },
  scale: {
    about: "Calls, rows and price of up to a million requests per second, from a model.",
    run: () => import("./scale.ts"),
  },
  simulate: {
    about: "Over- and under-admission of one key, by consistency and number of isolates.",
    run: () => import("../simulation/admission-table.ts"),
  },
  "first-seen": {
    about: "New keys per second, with one object per key and with shards.",
    run: () => import("./first-seen.ts"),
  },
  overhead: {
    about: "Time that statistics add to a decision. Fails at 1 µs or more.",
    run: () => import("./overhead.ts"),
  },
  memory: {
    about: "Heap of one isolate with 32 busy shards. Fails above 96 MB.",
    run: () => import("./memory.ts"),
  },
  console: {
    about: "The console in Chromium: first view, long tasks, memory. Fails when a target is missed.",
    run: () => import("./console.ts"),
  },
  "start-up": {
    about: "Processor time of Headgate's start and first request, compared with an empty Worker.",
    run: () => import("./start-up.ts"),
  },
  propagation: {
    about: "Time until five isolates follow changed rules. Fails when a target is missed.",
    run: () => import("./propagation.ts"),
  },
  rules: {
    about: "Calls of the control plane with 10,000 rules. Fails if a page takes 100 ms.",
    run: () => import("./rules.ts"),
  },
  crash: {
    about: "Kills workerd under load. Fails if more units are lost than the durability allows.",
    run: () => import("./crash.ts"),
  },
  load: {
    about: "Concurrent requests. Fails unless each window admits exactly the limit.",
    run: () => import("./load.ts"),
  },
  disconnects: {
    about: "Longest waits beside clients that disconnect, with joined and with separate calls.",
    run: () => import("./disconnects.ts"),
  },
  fuzz: {
    about: "Random requests. Fails on an error of Headgate or on quota beyond the limits.",
    run: () => import("./fuzz.ts"),
  },
  mutation: {
    about: "Mutation tests with Stryker: changes the source and expects a test to fail.",
    run: () => import("./mutation.ts"),
  },
};
