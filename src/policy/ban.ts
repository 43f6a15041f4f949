/** The field `ban`: denies a key for some time after repeated denials. */
import * as v from "valibot";
import { acceptedDuration, type Limit, parseDuration, parseLimits, writtenDuration } from "../strategies/index.ts";
import { fields, integerFrom } from "../validation/problems.ts";

/** Expressed as limits, so that meters count denials and bans like any other units. */
export interface Ban {
  /** Denials; the ban begins when this limit is spent. */
  readonly strikes: readonly Limit[];
  /** One unit is a ban; the window is the ban's length. */
  readonly term: readonly Limit[];
}

const mostStrikes = 1_000;

const duration = v.pipe(
  v.string(acceptedDuration),
  v.check((text) => parseDuration(text) !== null, acceptedDuration),
);

const acceptedBan =
  'a duration such as "10m" for a ban after the first denial; or { after = 3, within = "10m", for = "1h" }';

/** For a ban after one denial, the value of `within` makes no difference. */
const shortBan = v.pipe(
  v.string(acceptedBan),
  v.check((text) => parseDuration(text) !== null, acceptedBan),
  v.transform((text) => ({ after: 1, within: text, for: text })),
);

const longBan = fields({ after: integerFrom(1, mostStrikes), within: duration, for: duration });

export const banSchema = v.pipe(
  v.lazy((value) => (typeof value === "object" && value !== null ? longBan : shortBan)),
  v.transform(({ after, within, for: term }): Ban => ({
    strikes: parseLimits({ limit: after, window: within, strategy: "sliding-log" }),
    term: parseLimits({ limit: 1, window: term, strategy: "fixed-window" }),
  })),
);

/** The value of `ban`, in the JSON schema. */
export const writtenBan = () =>
  v.union([
    writtenDuration(),
    v.strictObject({
      after: integerFrom(1, mostStrikes),
      within: writtenDuration(),
      for: writtenDuration(),
    }),
  ]);
