/** What the routes decide with, made once for an environment: policies, the hashing of keys, the way to the objects. */
import type { CheckToken, Config, Policy } from "../config/index.ts";
import { LimiterClient } from "../limiter/client.ts";
import { Partitions } from "../policies/partitions.ts";
import { type Sign, signer } from "../policies/signature.ts";
import { claimsReader, type ReadClaims } from "./claims.ts";

export interface Gate {
  readonly policies: readonly Policy[];
  readonly checkTokens: readonly CheckToken[];
  readonly partitions: Partitions;
  /** Marks what is handed out as ours. */
  readonly sign: Sign;
  readonly limiter: LimiterClient;
  readonly readClaims: ReadClaims;
}

export function createGate(config: Config, objects: Env["RATE_LIMITER"]): Gate {
  return {
    policies: config.policies,
    checkTokens: config.checkTokens,
    partitions: new Partitions(config.keySecret),
    sign: signer(config.keySecret),
    limiter: new LimiterClient(objects),
    readClaims: config.jwt === null ? async () => ({}) : claimsReader(config.jwt),
  };
}
