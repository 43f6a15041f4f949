/** The fields `ban` and `onDeny`: what follows a denial. */
import * as v from "valibot";
import { acceptedDuration, type Limit, parseDuration, parseLimits } from "../strategies/index.ts";
import { fields, integerFrom } from "../validation/problems.ts";

export const mostStrikes = 1_000;

const duration = (accepted = acceptedDuration) =>
  v.pipe(
    v.string(accepted),
    v.check((text) => parseDuration(text) !== null, accepted),
  );

const acceptedBan =
  'a duration such as "10m" for a ban after the first denial; or { after = 3, within = "10m", for = "1h" }';

/** For a ban after the first denial, any `within` has the same effect. */
const shortBan = v.pipe(
  duration(acceptedBan),
  v.transform((text) => ({ after: 1, within: text, for: text })),
);

const longBan = fields({ after: integerFrom(1, mostStrikes), within: duration(), for: duration() });

export const banSchema = v.pipe(
  v.lazy((value) => (typeof value === "object" && value !== null ? longBan : shortBan)),
  v.transform(({ after, within, for: term }): Ban => ({
    strikes: parseLimits({ limit: after, window: within, strategy: "sliding-log" }),
    term: parseLimits({ limit: 1, window: term, strategy: "fixed-window" }),
  })),
);

/** Expressed as limits, so that meters count denials and bans like any other units. */
export interface Ban {
  /** Denials; the ban begins when this limit is spent. */
  readonly strikes: readonly Limit[];
  /** One unit is a ban; the window is the ban's length. */
  readonly term: readonly Limit[];
}

const mostBodyBytes = 4_096;

const acceptedType = 'a media type such as "text/html; charset=utf-8"';
const mediaType = /^[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+(?:\s*;[\x20-\x7e]*)?$/i;
const acceptedBody = `a well-formed text of at most ${mostBodyBytes} bytes`;

export const onDenyEntries = {
  status: v.optional(integerFrom(400, 599), 429),
  body: v.optional(
    v.pipe(
      v.string(acceptedBody),
      v.check((text) => text.isWellFormed(), acceptedBody),
      v.maxBytes(mostBodyBytes, acceptedBody),
    ),
  ),
  contentType: v.optional(v.pipe(v.string(acceptedType), v.regex(mediaType, acceptedType))),
};

export const onDenySchema = v.pipe(
  fields(onDenyEntries),
  v.transform(({ status, body, contentType }) => ({
    status,
    /** Null: problem details, with this status. */
    body: body ?? null,
    contentType: contentType ?? "text/plain; charset=utf-8",
  })),
);

/** An answer to denied requests that replaces the problem details. */
export type DenialAnswer = Readonly<v.InferOutput<typeof onDenySchema>>;
