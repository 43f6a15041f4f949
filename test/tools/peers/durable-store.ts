/** The Durable Object of `@hono-rate-limiter/cloudflare`, run in this process, which counts what Cloudflare bills. */
import { createRequire, registerHooks } from "node:module";
import type {
  cloudflareRateLimiter as CloudflareRateLimiter,
  DurableObjectRateLimiter,
  DurableObjectStore,
} from "@hono-rate-limiter/cloudflare";

const platform = "cloudflare:workers";
const source = "exports.DurableObject = class { constructor(ctx) { this.ctx = ctx; } };";

/** Imports the package as in a Worker, where the platform provides the class of Durable Objects. */
function importPackage(): {
  DurableObjectRateLimiter: new (ctx: object) => DurableObjectRateLimiter;
  DurableObjectStore: typeof DurableObjectStore;
  cloudflareRateLimiter: typeof CloudflareRateLimiter;
} {
  const hooks = registerHooks({
    resolve: (name, context, next) => (name === platform ? { url: platform, shortCircuit: true } : next(name, context)),
    load: (url, context, next) =>
      url === platform ? { source, format: "commonjs", shortCircuit: true } : next(url, context),
  });
  try {
    return createRequire(import.meta.url)("@hono-rate-limiter/cloudflare");
  } finally {
    hooks.deregister();
  }
}

const cloudflare = importPackage();

/** The middleware of the package for the rate limiting binding. */
export const { cloudflareRateLimiter } = cloudflare;

/** The billed operations of the objects of one namespace. */
export interface ObjectCounts {
  calls: number;
  rowsRead: number;
  rowsWritten: number;
  alarms: number;
}

export interface DurableStore {
  readonly store: DurableObjectStore;
  readonly counts: ObjectCounts;
  readonly objects: ReadonlyMap<string, DurableObjectRateLimiter>;
}

export function durableStore(windowMs: number): DurableStore {
  const counts: ObjectCounts = { calls: 0, rowsRead: 0, rowsWritten: 0, alarms: 0 };
  const objects = new Map<string, DurableObjectRateLimiter>();
  const namespace = {
    idFromName: (name: string): string => name,
    get: (name: string): DurableObjectRateLimiter => {
      const object = objects.get(name) ?? storedObject(counts);
      objects.set(name, object);
      return object;
    },
  };
  const store = new cloudflare.DurableObjectStore({ namespace: namespace as never });
  store.init({ windowMs } as never);
  return { store, counts, objects };
}

function storedObject(counts: ObjectCounts): DurableObjectRateLimiter {
  let value: unknown;
  let alarmAtMs: number | null = null;
  const storage = {
    // oxlint-disable-next-line require-await
    get: async () => {
      counts.rowsRead++;
      return value;
    },
    // oxlint-disable-next-line require-await
    put: async (_: string, given: unknown) => {
      counts.rowsWritten++;
      value = structuredClone(given);
    },
    // oxlint-disable-next-line require-await
    getAlarm: async () => alarmAtMs,
    setAlarm: (atMs: number) => {
      counts.rowsWritten++;
      alarmAtMs = atMs;
      setTimeout(runAlarm, atMs - Date.now());
    },
  };
  const object = new cloudflare.DurableObjectRateLimiter({ storage });
  const runAlarm = (): void => {
    counts.alarms++;
    alarmAtMs = null;
    void object.alarm();
  };
  const update = object.update.bind(object);
  object.update = (...given) => {
    counts.calls++;
    return update(...given);
  };
  return object;
}
