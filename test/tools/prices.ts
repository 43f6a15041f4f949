/** Cloudflare's prices on the paid plan, beyond the quantities that the plan includes each month. */

export interface Price {
  readonly dollars: number;
  /** The quantity for this price. */
  readonly per: number;
  readonly unit: string;
  /**
   * The quantity included each month. The computed figures ignore this quantity, because they are the cost of
   * additional traffic.
   */
  readonly included: string;
  readonly source: keyof typeof sources;
}

/** The month in which the sources were read. */
export const readIn = "November 2026";

const million = 1_000_000;
/** The addresses of Cloudflare's price lists. */
export const sources = {
  "Workers pricing": "https://developers.cloudflare.com/workers/platform/pricing/",
  "Durable Objects pricing": "https://developers.cloudflare.com/durable-objects/platform/pricing/",
} as const;

const workers = "Workers pricing";
const durableObjects = "Durable Objects pricing";

export const prices = {
  workerRequests: {
    dollars: 0.3,
    per: million,
    unit: "requests to a Worker",
    included: "10 million",
    source: workers,
  },
  workerCpuMs: {
    dollars: 0.02,
    per: million,
    unit: "milliseconds of a Worker's CPU",
    included: "30 million",
    source: workers,
  },
  /** Calls, and alarms that run. */
  objectRequests: {
    dollars: 0.15,
    per: million,
    unit: "requests to an object",
    included: "1 million",
    source: durableObjects,
  },
  /**
   * Each object is billed for 128 MB while it is active or kept from hibernating, regardless of the memory that it
   * uses.
   */
  objectSeconds: {
    dollars: 12.5 * 0.128,
    per: million,
    unit: "seconds of an object, at $12.50 per million GB-s",
    included: "400,000 GB-s",
    source: durableObjects,
  },
  rowsRead: {
    dollars: 0.001,
    per: million,
    unit: "rows read",
    included: "25 billion",
    source: durableObjects,
  },
  /** Each key put, key deleted and alarm set is a row. */
  rowsWritten: {
    dollars: 1,
    per: million,
    unit: "rows written",
    included: "50 million",
    source: durableObjects,
  },
} satisfies Record<string, Price>;

export const dollarsFor = (count: number, { dollars, per }: Pick<Price, "dollars" | "per">): number =>
  (count / per) * dollars;
