/** What a request tells of itself: policies are matched with it, and keys are made of it. */
export interface RequestAttributes {
  readonly method: string;
  readonly url: URL;
  /** The path as it was before URL parsing, where the origin may be asked for it so: a gateway sends it as it is. */
  readonly unparsedPath?: string;
  readonly headers: Headers;
  /** What Cloudflare knows of where a request comes from; not there in local workerd. */
  readonly cf: (name: string) => unknown;
  /** Every value that the request has for a cookie of this name. */
  readonly cookies: (name: string) => readonly string[];
}

/** What a verified token says of whom it was issued to. */
export type Claims = Readonly<Record<string, unknown>>;
