// SPDX-License-Identifier: GPL-2.0
package workshop;

/** Something of every kind that a parcel can carry. */
parcelable Item {
    String name;
    int number;
    long big;
    double ratio;
    boolean flag;
    byte[] bytes;
    @nullable String note;
    String[] words;
}
