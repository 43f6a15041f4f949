/** What the routes decide with, made once for an environment: policies, the hashing of keys, the way to the objects. */
import type { CheckToken, Config, Policy } from "../config/index.ts";
import { Bans } from "../limiter/client/bans.ts";
import { LimiterClient } from "../limiter/client/client.ts";
import { DenialLog } from "../limiter/client/denial-log.ts";
import { PartitionKeys } from "../policies/partition-key.ts";
import { type Hmac, hmacWith } from "../policies/hmac.ts";
import { claimsReader, type ReadClaims } from "./claims.ts";

export interface Runtime {
  readonly policies: readonly Policy[];
  /** What preflights are charged to in place of them; none where they have no limits. */
  readonly preflights: readonly Policy[];
  readonly checkTokens: readonly CheckToken[];
  readonly isLookOpen: boolean;
  /** What calls below `CHECK_PATH` themselves meet: policies whose path begins with it. */
  readonly selfPolicies: readonly Policy[];
  readonly partitions: PartitionKeys;
  /** Marks what is handed out as ours. */
  readonly sign: Hmac;
  /** What the deployment calls itself to other proxies: not the same as one that it stands before or behind. */
  readonly pseudonym: () => Promise<string>;
  readonly limiter: LimiterClient;
  readonly bans: Bans;
  readonly readClaims: ReadClaims;
  readonly hasLegacyHeaders: boolean;
  /** Null where denials are not logged. */
  readonly denialLog: DenialLog | null;
}

export function createRuntime(config: Config, objects: Env["RATE_LIMITER"]): Runtime {
  const sign = hmacWith(config.keySecret);
  const { origin } = config;
  const via = JSON.stringify({ via: origin.kind === "url" ? origin.url.origin : origin.kind });
  let pseudonym: string | null = null;
  const limiter = new LimiterClient(objects);
  return {
    policies: config.policies,
    preflights: config.preflights === null ? [] : [config.preflights],
    checkTokens: config.checkTokens,
    isLookOpen: config.isLookOpen,
    selfPolicies: config.selfPolicies,
    partitions: new PartitionKeys(config.keySecret),
    sign,
    pseudonym: async () => (pseudonym ??= `headgate-${(await sign(via)).slice(0, 8)}`),
    limiter,
    bans: new Bans(limiter),
    readClaims: config.jwt === null ? async () => ({ claims: {} }) : claimsReader(config.jwt),
    hasLegacyHeaders: config.hasLegacyHeaders,
    denialLog: config.logsDenials ? new DenialLog() : null,
  };
}
