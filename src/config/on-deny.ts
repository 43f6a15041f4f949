/** What follows a denial, as written: a ban, and an answer of the policy's own. */
import * as v from "valibot";
import { acceptedDuration, type Limit, parseDuration, parseLimits } from "../strategies/index.ts";
import { fields, integerFrom } from "../validation/problems.ts";

/** What is counted and what is served, as limits: so they are kept, and told the time, as all limits are. */
export interface Ban {
  /** Denials, until there are so many within so long. */
  readonly strikes: readonly Limit[];
  /** One unit of it is a ban, for as long as it is not given back. */
  readonly term: readonly Limit[];
}

/** What a denied client is answered instead of problem details. */
export interface DenialAnswer {
  readonly status: number;
  /** Null: problem details all the same. */
  readonly body: string | null;
  readonly contentType: string;
}

const mostStrikes = 1_000;
const mostBodyBytes = 4_096;

const duration = v.pipe(
  v.string(acceptedDuration),
  v.check((text) => parseDuration(text) !== null, acceptedDuration),
);

const acceptedBan =
  'a duration such as "10m", for a ban at the first denial; or { after = 3, within = "10m", for = "1h" }';

/** At the first denial the time within which it is counted makes no difference. */
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

const acceptedType = 'a media type such as "text/html; charset=utf-8"';
const mediaType = /^[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+(?:\s*;[\x20-\x7e]*)?$/i;
const acceptedBody = `a well-formed text of at most ${mostBodyBytes} bytes`;

export const onDenySchema = v.pipe(
  fields({
    status: v.optional(integerFrom(400, 599), 429),
    body: v.optional(
      v.pipe(
        v.string(acceptedBody),
        v.check((text) => text.isWellFormed(), acceptedBody),
        v.maxBytes(mostBodyBytes, acceptedBody),
      ),
    ),
    contentType: v.optional(v.pipe(v.string(acceptedType), v.regex(mediaType, acceptedType))),
  }),
  v.transform(({ status, body, contentType }): DenialAnswer => ({
    status,
    body: body ?? null,
    contentType: contentType ?? "text/plain; charset=utf-8",
  })),
);
